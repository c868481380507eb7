"""How a preparation ends: an environment, or the reason why there is none."""

from msgspec import Struct

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import PYTHON, Mount

_MAX_DETAIL_CHARACTERS = 900


class Environment(Struct, frozen=True):
    """What a script's sandbox needs: its interpreter's path inside, and what is mounted there."""

    interpreter: str
    mounts: tuple[Mount, ...] = ()


# The sandbox's own Python, for a script that names no dependencies.
BARE = Environment(PYTHON)


class PrepareFailed(Exception):
    """The environment could not be made. `detail` is one printable line for the task's owner."""

    def __init__(self, reason: EndReason, detail: str):
        self.reason = reason
        self.detail = one_line(detail)
        super().__init__(self.detail)


def failed(detail: str) -> PrepareFailed:
    return PrepareFailed(EndReason.PREPARE_FAILED, detail)


def one_line(text: str) -> str:
    """Without line ends and control characters, cut in the middle if it is too long."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    if len(line) <= _MAX_DETAIL_CHARACTERS:
        return line
    half = _MAX_DETAIL_CHARACTERS // 2
    return f"{line[:half]} … {line[-half:]}"
