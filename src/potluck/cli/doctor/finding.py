"""The finding of a check: the actual value, the needed one, and a fix."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from potluck.model.error import PotluckError


class CheckResult(StrEnum):
    OK = "ok"
    WARN = "warn"  # works, or is not always needed
    FAIL = "fail"
    SKIPPED = "skipped"  # could not be checked, or does not apply to this machine


class MachineUse(StrEnum):
    """What this machine is used for."""

    CONSUMER = "consumer"  # submits tasks
    PROVIDER = "provider"  # offers devices


class Finding(Struct, frozen=True):
    name: str
    verdict: CheckResult
    found: str
    needed: str
    fix: str = ""  # a command that can be copied, or a sentence


class CheckedMachine(Struct, frozen=True):
    """The machine to check."""

    url: str | None  # of the server, if known
    ca_file: Path | None
    directory: Path  # of the provider
    is_providing: bool  # it is in a pool, or about to join one
    seconds: float = 3.0  # timeout of calls that may hang


# Yields its findings; checks that depend on a failed one are skipped.
Check = Callable[[CheckedMachine], Iterator[Finding]]


def passed(name: str, found: str, needed: str) -> Finding:
    return Finding(name, CheckResult.OK, found, needed)


def warned(name: str, found: str, needed: str, fix: str = "") -> Finding:
    return Finding(name, CheckResult.WARN, found, needed, fix)


def failed(name: str, found: str, needed: str, fix: str) -> Finding:
    return Finding(name, CheckResult.FAIL, found, needed, fix)


def skipped(name: str, why: str, needed: str = "") -> Finding:
    return Finding(name, CheckResult.SKIPPED, why, needed)


def failed_with(name: str, error: PotluckError, needed: str) -> Finding:
    """Makes a finding from an error's detail and hint."""
    return failed(name, error.detail, needed, error.hint)
