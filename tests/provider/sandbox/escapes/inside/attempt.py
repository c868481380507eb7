"""One attempt: made in a process of its own, and judged.

A probe returns what it got hold of, or nothing; or the kernel refuses, by an error or by ending the
process. What is neither is a mistake of the probe, and never counts as blocked.
"""

import errno
import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.provider.sandbox.escapes.inside.bait import Bait

Attempt = Callable[[Bait], str | None]

_SECONDS = 20
_REFUSALS = {
    errno.EACCES,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
    errno.ECONNREFUSED,
    errno.ENETUNREACH,
    errno.ENODEV,
    errno.ENOENT,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.ENOTTY,
    errno.ENXIO,
    errno.EPERM,
    errno.EPROTONOSUPPORT,
    errno.EROFS,
    errno.ESOCKTNOSUPPORT,
    errno.ESRCH,
    errno.EXDEV,
}


@dataclass(frozen=True)
class Probe:
    name: str
    tries: str
    attempt: Attempt


@dataclass(frozen=True)
class Outcome:
    """`open`, `blocked` or `broken`, and how that was seen."""

    state: str
    how: str


PROBES: list[Probe] = []


def add(name: str, tries: str, attempt: Attempt) -> None:
    assert name not in {known_probe.name for known_probe in PROBES}, name
    PROBES.append(Probe(name, tries, attempt))


def probe(name: str, tries: str) -> Callable[[Attempt], Attempt]:
    """Adds the function below it."""

    def adding(attempt: Attempt) -> Attempt:
        add(name, tries, attempt)
        return attempt

    return adding


def make(attempt: Attempt, bait: Bait) -> Outcome:
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(_SECONDS)
        outcome = _judged(attempt, bait)
        os.write(write_fd, json.dumps([outcome.state, outcome.how]).encode())
        os._exit(0)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as pipe:
        data = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if data:
        return Outcome(*json.loads(data))
    is_killed = code == -signal.SIGSYS
    return Outcome("blocked" if is_killed else "broken", f"ended with {signal.Signals(-code).name}")


def _judged(attempt: Attempt, bait: Bait) -> Outcome:
    try:
        evidence = attempt(bait)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, str(error))
        return Outcome("blocked" if error.errno in _REFUSALS else "broken", name)
    except Exception as mistake:  # noqa: BLE001, told as what it is
        return Outcome("broken", repr(mistake)[:200])
    return Outcome("open", evidence[:200]) if evidence else Outcome("blocked", "nothing there")
