"""Child processes that do not outlive us."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def ends_with_us(number: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: the kernel sends the child this signal when we are gone, however we went.

    Only Linux can do that; elsewhere there is nothing to call. The kernel counts the thread that
    started the child as us.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded before the fork: afterwards little is safe
    parent = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # we were gone before it could ask
            os._exit(1)

    return in_child
