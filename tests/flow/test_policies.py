"""Policies are chosen by name; one that is not there is named, with those that are."""

import re
from pathlib import Path

import msgspec
import pytest

from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.model.error import BadSettings
from potluck.server.policies import order_by_name, placement_by_name
from potluck.server.settings import ServerSettings
from tests.flow.pool import Pool

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


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


@pytest.fixture
def near_the_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The placement of the page, in a folder as an installer leaves it."""
    _, _, text = PAGE.read_text().partition("A placement is a class with one method")
    found = re.search(r"```python\n(.*?)```.*?```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    code, named = found.groups()
    group, place = named.strip().splitlines()
    info = tmp_path / "site" / "near_the_door-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: near-the-door\nVersion: 1.0\n")
    told = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", group), place.replace('"', "")
    (info / "entry_points.txt").write_text("\n".join(told))
    (info.parent / "near_the_door.py").write_text(code)
    monkeypatch.syspath_prepend(str(info.parent))


@pytest.mark.usefixtures("near_the_door")
async def test_a_placement_of_ones_own_is_chosen_by_its_name(pool: Pool) -> None:
    settings = msgspec.structs.replace(pool.parts.settings, placement_policy="near-the-door")
    pool.parts = msgspec.structs.replace(pool.parts, settings=settings)
    nodes = [
        (await pool.offer(labels=labels)).node_id
        for labels in ((), ("zone=door",), ("zone=cellar",))
    ]
    await pool.submit()
    assert [each.node_id for each in (await pool.plan()).assigned] == [nodes[1]]
