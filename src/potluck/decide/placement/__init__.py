"""Placement policies, by name."""

from collections.abc import Callable

from potluck.decide.placement.interface import Placement

PLACEMENTS: dict[str, Callable[[], Placement]] = {"fragmentation": Placement}
