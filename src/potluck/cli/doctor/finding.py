"""What a check finds: the actual value, the needed one, and what to do about the difference."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from potluck.model.error import PotluckError


class CheckResult(StrEnum):
    """Whether something is as it should be."""

    OK = "ok"
    WARN = "warn"  # works, or is not needed by everybody
    FAIL = "fail"
    SKIPPED = "skipped"  # could not be looked at, or is nothing for this machine


class MachineUse(StrEnum):
    """What somebody does with this machine."""

    CONSUMER = "consumer"  # send tasks
    PROVIDER = "provider"  # bring devices


class Finding(Struct, frozen=True):
    name: str
    verdict: CheckResult
    found: str
    needed: str
    fix: str = ""  # a command that can be copied, or a sentence


class Patient(Struct, frozen=True):
    """The machine that is looked at."""

    url: str | None  # of the server, where one is known
    ca_file: Path | None
    directory: Path  # of the provider
    is_providing: bool  # somebody has brought this machine to a pool, or is about to
    seconds: float = 3.0  # at most, for whatever may hang


# Yields what it finds, one after the other; what depends on a failure is skipped.
Check = Callable[[Patient], Iterator[Finding]]


def well(name: str, found: str, needed: str) -> Finding:
    return Finding(name, CheckResult.OK, found, needed)


def odd(name: str, found: str, needed: str, fix: str = "") -> Finding:
    return Finding(name, CheckResult.WARN, found, needed, fix)


def wrong(name: str, found: str, needed: str, fix: str) -> Finding:
    return Finding(name, CheckResult.FAIL, found, needed, fix)


def skipped(name: str, why: str, needed: str = "") -> Finding:
    return Finding(name, CheckResult.SKIPPED, why, needed)


def failed_by(name: str, error: PotluckError, needed: str) -> Finding:
    """What an error of ours says is a finding already."""
    return wrong(name, error.detail, needed, error.hint)
