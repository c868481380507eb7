"""Placement policies, by name. A policy of one's own is an entry point of `potluck.placement`."""

from collections.abc import Callable

from potluck.decide.placement.best_fit import BestFit
from potluck.decide.placement.cheapest import Cheapest
from potluck.decide.placement.first_fit import FirstFit
from potluck.decide.placement.fragmentation import Fragmentation
from potluck.decide.placement.interface import Placement
from potluck.decide.placement.pack import Pack
from potluck.decide.placement.spread import Spread

PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "first-fit": FirstFit,
    "best-fit": BestFit,
    "pack": Pack,
    "spread": Spread,
    "cheapest": Cheapest,
    "fragmentation": Fragmentation,
}
