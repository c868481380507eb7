"""Policies by name: ours, and those that installed packages bring as entry points."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import TypeVar

from potluck.decide.order import ORDERS
from potluck.decide.order.interface import OrderPolicy, Place, Turn
from potluck.decide.placement import PLACEMENTS
from potluck.decide.placement.interface import Placement, PlacementChoice
from potluck.decide.pool.node_capacity import NodeProfile
from potluck.decide.types import WaitingTask
from potluck.model.error import BadSettings
from potluck.model.task import Requirements


class ExternalOrder:
    def __init__(self, name: str, order: OrderPolicy) -> None:
        self._name = name
        self._order = order
        with _blamed("order", name):
            self.promises = order.promises

    def within(self, task: WaitingTask) -> float:
        with _blamed("order", self._name):
            return self._order.within(task)

    def between(self, turn: Turn) -> Place:
        with _blamed("order", self._name):
            return self._order.between(turn)


class ExternalPlacement(Placement):
    def __init__(self, name: str, placement: Placement) -> None:
        self._name = name
        self._placement = placement
        with _blamed("placement", name):
            self._follow()

    def score(self, choice: PlacementChoice) -> float:
        with _blamed("placement", self._name):
            score = self._placement.score(choice)
            self._follow()
            return score

    def learn(self, requirements: Requirements, count: int) -> None:
        with _blamed("placement", self._name):
            self._placement.learn(requirements, count)
            self._follow()

    def prepare(self, profiles: Sequence[NodeProfile]) -> None:
        with _blamed("placement", self._name):
            self._placement.prepare(profiles)
            self._follow()

    def _follow(self) -> None:
        """What it says about itself may change whenever it is asked something."""
        theirs = self._placement
        self.looks_at, self.tolerance = theirs.looks_at, theirs.tolerance
        self.epoch, self.is_due = theirs.epoch, theirs.is_due


@contextmanager
def _blamed(kind: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise BadSettings(
            f"The {kind} policy {name!r} raised {type(error).__name__}: {error}.",
            "Mend the package that brings it, or choose another policy.",
        ) from error


T = TypeVar("T")


def order_by_name(name: str) -> OrderPolicy:
    ours = ORDERS.get(name)
    return ours() if ours is not None else ExternalOrder(name, _foreign("order", ORDERS, name))


def placement_by_name(name: str) -> Placement:
    ours = PLACEMENTS.get(name)
    if ours is not None:
        return ours()
    return ExternalPlacement(name, _foreign("placement", PLACEMENTS, name))


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
