"""Policies are chosen by name; one that is not there is named, with those that are."""

import pytest

from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.model.error import BadSettings
from potluck.server.policies import order_by_name, placement_by_name
from potluck.server.settings import ServerSettings


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_can_be_chosen(name: str) -> None:
    assert isinstance(order_by_name(name), ORDERS[name])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_can_be_chosen(name: str) -> None:
    assert isinstance(placement_by_name(name), PLACEMENTS[name])  # type: ignore[arg-type]


def test_the_defaults_are_there() -> None:
    fields = ServerSettings.__struct_defaults__
    assert "fair" in fields and "fragmentation" in fields
    assert "fair" in ORDERS and "fragmentation" in PLACEMENTS


def test_an_unknown_name_is_told_with_those_that_are_known() -> None:
    with pytest.raises(BadSettings, match=r"'fairest'.*fair, fcfs"):
        order_by_name("fairest")
    with pytest.raises(BadSettings, match=r"'magic'.*fragmentation"):
        placement_by_name("magic")
