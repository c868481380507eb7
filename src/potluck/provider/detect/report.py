"""The results of device detection; `potluck doctor` shows all of them."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from potluck.model.device import DeviceDescription
from potluck.provider.detect.types import FoundDevice


class RouteOutcome(StrEnum):
    FOUND = "found"  # it has devices
    NOTHING = "nothing"  # it works, and has no devices
    MISSING = "missing"  # its library or tool is not on this machine
    FAILED = "failed"  # it returned an error, crashed, or gave an unreadable answer
    TIMED_OUT = "timed_out"  # it did not answer in time, and was ended


class RouteTrial(Struct, frozen=True):
    """One query of one route to devices."""

    route: str  # nvidia, amd, intel, apple, opencl, cpu
    outcome: RouteOutcome
    detail: str = ""  # a sentence about its result or its failure
    hint: str = ""
    seconds: float = 0.0
    devices: int = 0  # including those that other routes found, too


class RouteAnswer(Struct, frozen=True):
    outcome: RouteOutcome
    devices: tuple[FoundDevice, ...] = ()
    detail: str = ""
    hint: str = ""


class Detection(Struct, frozen=True):
    """The devices of this machine, each once, and how they were found."""

    devices: tuple[DeviceDescription, ...]  # with the default terms
    found: Mapping[str, FoundDevice]  # by the uuid of the description
    tried: tuple[RouteTrial, ...]


def answer_with(devices: tuple[FoundDevice, ...], detail: str = "", hint: str = "") -> RouteAnswer:
    """The answer of a route that works."""
    outcome = RouteOutcome.FOUND if devices else RouteOutcome.NOTHING
    return RouteAnswer(outcome, devices, detail, hint)
