"""Policies by name: ours, and those that installed packages bring as entry points."""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from potluck.decide.order import ORDERS
from potluck.decide.order.interface import Order
from potluck.decide.placement import PLACEMENTS
from potluck.decide.placement.interface import Placement
from potluck.model.error import BadSettings
from potluck.server.external_policies import ForeignOrder, ForeignPlacement

T = TypeVar("T")


def order_by_name(name: str) -> Order:
    ours = ORDERS.get(name)
    return ours() if ours is not None else ForeignOrder(name, _foreign("order", ORDERS, name))


def placement_by_name(name: str) -> Placement:
    ours = PLACEMENTS.get(name)
    if ours is not None:
        return ours()
    return ForeignPlacement(name, _foreign("placement", PLACEMENTS, name))


def _foreign(kind: str, ours: Mapping[str, Callable[[], T]], name: str) -> T:
    theirs = {each.name: each for each in entry_points(group=f"potluck.{kind}")}
    if name not in theirs:
        known = ", ".join(sorted({*ours, *theirs}))
        raise BadSettings(
            f"There is no {kind} policy {name!r}; there are {known}.",
            "Choose one of these, or install the package that brings it as an entry point of the"
            f" group potluck.{kind}. A server's is POTLUCK_{kind.upper()}_POLICY.",
        )
    try:
        made: T = theirs[name].load()()
    except Exception as error:
        raise BadSettings(
            f"The {kind} policy {name!r} can not be loaded: {error}.",
            "Mend the package that brings it, or choose another policy.",
        ) from error
    return made
