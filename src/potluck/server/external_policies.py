"""Policies that others wrote: what one raises is told as its own mistake, under its name."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from potluck.decide.order.interface import Order, Place, Turn
from potluck.decide.placement.interface import Choice, Placement
from potluck.decide.pool.node_capacity import Profile
from potluck.decide.types import WaitingTask
from potluck.model.error import BadSettings
from potluck.model.task import Requirements


class ForeignOrder:
    def __init__(self, name: str, order: Order) -> None:
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


class ForeignPlacement(Placement):
    def __init__(self, name: str, placement: Placement) -> None:
        self._name = name
        self._placement = placement
        with _blamed("placement", name):
            self._follow()

    def score(self, choice: Choice) -> float:
        with _blamed("placement", self._name):
            score = self._placement.score(choice)
            self._follow()
            return score

    def learn(self, requirements: Requirements, count: int) -> None:
        with _blamed("placement", self._name):
            self._placement.learn(requirements, count)
            self._follow()

    def prepare(self, profiles: Sequence[Profile]) -> None:
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
