"""How a command ended by itself, in words: its exit status, or the signal that killed it."""

import os
import signal

from msgspec import Struct

from potluck.model.task import EndReason

_SIGNAL_OFFSET = 128  # shells and bwrap tell a signal n as the exit status 128 + n


class Verdict(Struct, frozen=True):
    reason: EndReason
    exit_code: int | None  # a signal is negative
    detail: str


def of_code(code: int) -> Verdict:
    """For a code as `subprocess` tells it: a signal is negative."""
    if code < 0:
        return Verdict(EndReason.SIGNAL, code, f"it was killed by {_signal_name(-code)}")
    if code == 0:
        return Verdict(EndReason.COMPLETED, 0, "it ended with exit status 0")
    return Verdict(EndReason.EXIT_STATUS, code, f"it ended with exit status {code}")


def of_translated(code: int, wait_status: int | None) -> Verdict:
    """For a code in which a signal may hide as 128 + n.

    The wait status of the command itself settles it. Where the kernel does not tell that, a code
    that can be a signal is taken for one: scripts rarely choose such an exit status.
    """
    if wait_status is not None:
        return of_code(os.waitstatus_to_exitcode(wait_status))
    hidden = code - _SIGNAL_OFFSET
    if hidden not in signal.valid_signals():
        return of_code(code)
    detail = f"it was killed by {_signal_name(hidden)}, or ended with exit status {code}"
    return Verdict(EndReason.SIGNAL, -hidden, detail)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
