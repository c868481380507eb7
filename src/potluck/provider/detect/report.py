"""What was tried to find devices, and what came of it: `potluck doctor` shows all of it."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from potluck.model.device import DeviceDescription
from potluck.provider.detect.types import FoundDevice


class RouteOutcome(StrEnum):
    """What came of asking one route for devices."""

    FOUND = "found"  # it knows of some
    NOTHING = "nothing"  # it works, and knows of none
    MISSING = "missing"  # its library or tool is not on this machine
    FAILED = "failed"  # it said no, crashed, or answered nonsense
    TIMED_OUT = "timed_out"  # it did not answer in time, and was ended


class RouteTrial(Struct, frozen=True):
    """One route to devices, asked once."""

    route: str  # nvidia, amd, intel, apple, opencl, cpu
    outcome: RouteOutcome
    detail: str = ""  # a sentence: what it said, or why it said nothing
    hint: str = ""  # what would help, where something would
    seconds: float = 0.0
    devices: int = 0  # that it knows of, also those that another route knew already


class RouteAnswer(Struct, frozen=True):
    """What one route said."""

    outcome: RouteOutcome
    devices: tuple[FoundDevice, ...] = ()
    detail: str = ""
    hint: str = ""


class Detection(Struct, frozen=True):
    """What this machine has, each device once, and how that was found out."""

    devices: tuple[DeviceDescription, ...]  # on the default terms
    found: Mapping[str, FoundDevice]  # by the uuid of the description
    tried: tuple[RouteTrial, ...]


def answered(devices: tuple[FoundDevice, ...], detail: str = "", hint: str = "") -> RouteAnswer:
    """Of a route that works."""
    outcome = RouteOutcome.FOUND if devices else RouteOutcome.NOTHING
    return RouteAnswer(outcome, devices, detail, hint)
