"""Child processes that do not outlive us, and do not inherit what is not for them."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

# What a person tells one command; no process that it starts, or becomes, needs to know.
SECRET_VARIABLES = frozenset(
    {
        *("POTLUCK_WALLET_KEY", "POTLUCK_WALLET_PASSWORD", "POTLUCK_TOKEN", "POTLUCK_INVITE"),
        "POTLUCK_NOTIFY",  # a URL there carries its secrets
    }
)
_PR_SET_PDEATHSIG = 1


def without_secrets(*others: str) -> dict[str, str]:
    """Our own variables but for those, and for these others."""
    hidden = SECRET_VARIABLES | set(others)
    return {name: value for name, value in os.environ.items() if name not in hidden}


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
