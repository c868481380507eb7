"""Placement policies by name. Your own policy is an entry point of `potluck.placement`."""

from collections.abc import Callable

from potluck.decide.placement.fragmentation import Fragmentation
from potluck.decide.placement.interface import Placement
from potluck.decide.placement.policies import BestFit, Cheapest, FirstFit, Pack, Spread

PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "first-fit": FirstFit,
    "best-fit": BestFit,
    "pack": Pack,
    "spread": Spread,
    "cheapest": Cheapest,
    "fragmentation": Fragmentation,
}
