"""Loads policies by name: built-in ones, and those that packages provide as entry points."""

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
        with _attribute_errors("order", name):
            self.promises = order.promises

    def within(self, task: WaitingTask) -> float:
        with _attribute_errors("order", self._name):
            return self._order.within(task)

    def between(self, turn: Turn) -> Place:
        with _attribute_errors("order", self._name):
            return self._order.between(turn)


class ExternalPlacement(Placement):
    def __init__(self, name: str, placement: Placement) -> None:
        self._name = name
        self._placement = placement
        with _attribute_errors("placement", name):
            self._copy_attributes()

    def score(self, choice: PlacementChoice) -> float:
        with _attribute_errors("placement", self._name):
            score = self._placement.score(choice)
            self._copy_attributes()
            return score

    def learn(self, requirements: Requirements, count: int) -> None:
        with _attribute_errors("placement", self._name):
            self._placement.learn(requirements, count)
            self._copy_attributes()

    def prepare(self, profiles: Sequence[NodeProfile]) -> None:
        with _attribute_errors("placement", self._name):
            self._placement.prepare(profiles)
            self._copy_attributes()

    def _copy_attributes(self) -> None:
        """Copies the attributes, which the policy may change during any call."""
        external = self._placement
        self.looks_at, self.tolerance = external.looks_at, external.tolerance
        self.epoch, self.is_due = external.epoch, external.is_due


@contextmanager
def _attribute_errors(kind: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise BadSettings(
            f"The {kind} policy {name!r} raised {type(error).__name__}: {error}.",
            "Fix the package that provides it, or choose another policy.",
        ) from error


T = TypeVar("T")


def order_by_name(name: str) -> OrderPolicy:
    ours = ORDERS.get(name)
    return (
        ours() if ours is not None else ExternalOrder(name, _load_external("order", ORDERS, name))
    )


def placement_by_name(name: str) -> Placement:
    ours = PLACEMENTS.get(name)
    if ours is not None:
        return ours()
    return ExternalPlacement(name, _load_external("placement", PLACEMENTS, name))


def _load_external(kind: str, ours: Mapping[str, Callable[[], T]], name: str) -> T:
    external = {entry.name: entry for entry in entry_points(group=f"potluck.{kind}")}
    if name not in external:
        names = ", ".join(sorted({*ours, *external}))
        raise BadSettings(
            f"There is no {kind} policy {name!r}. Available: {names}.",
            "Choose one of these, or install a package that provides it as an entry point of the"
            f" group potluck.{kind}. The setting of a server is POTLUCK_{kind.upper()}_POLICY.",
        )
    try:
        policy: T = external[name].load()()
    except Exception as error:
        raise BadSettings(
            f"The {kind} policy {name!r} cannot be loaded: {error}.",
            "Fix the package that provides it, or choose another policy.",
        ) from error
    return policy
