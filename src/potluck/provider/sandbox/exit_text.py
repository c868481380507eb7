"""How a command ended by itself, in words: its exit status, or the signal that killed it."""

import os
import signal

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import RunOutcome

_SIGNAL_OFFSET = 128  # shells and bwrap tell a signal n as the exit status 128 + n


def of_code(code: int) -> RunOutcome:
    """For a code as `subprocess` tells it: a signal is negative."""
    if code < 0:
        return RunOutcome(EndReason.SIGNAL, f"it was killed by {_signal_name(-code)}", code)
    if code == 0:
        return RunOutcome(EndReason.COMPLETED, "it ended with exit status 0", 0)
    return RunOutcome(EndReason.EXIT_STATUS, f"it ended with exit status {code}", code)


def of_translated(code: int, wait_status: int | None) -> RunOutcome:
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
    return RunOutcome(EndReason.SIGNAL, detail, -hidden)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
