"""Child processes that end with their parent and do not inherit its secrets."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

# Meant for one command, not for the processes that it starts or becomes.
SECRET_VARIABLES = frozenset(
    {
        *("POTLUCK_WALLET_KEY", "POTLUCK_WALLET_PASSWORD", "POTLUCK_TOKEN", "POTLUCK_INVITE"),
        *("POTLUCK_NOTIFY", "POTLUCK_RPC_URL"),  # URLs may contain secrets
    }
)
_PR_SET_PDEATHSIG = 1


def environment_without_secrets(*others: str) -> dict[str, str]:
    """The environment without the secret variables and these others."""
    hidden = SECRET_VARIABLES | set(others)
    return {name: value for name, value in os.environ.items() if name not in hidden}


def end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """For `preexec_fn`: the kernel sends the child this signal when the parent ends in any way.

    Linux only; None elsewhere. The kernel regards the thread that started the child as the parent.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # loaded before the fork: little is safe afterwards
    parent = os.getpid()

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # the parent ended before the call
            os._exit(1)

    return in_child
