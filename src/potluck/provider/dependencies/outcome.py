"""The result of a preparation: an environment, or the reason why there is none."""

from msgspec import Struct

from potluck.model.task import EndReason
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.driver import PYTHON, Mount


class Environment(Struct, frozen=True):
    """A script's interpreter, as a path inside the sandbox, and the mounts that it needs."""

    interpreter: str
    mounts: tuple[Mount, ...] = ()


# The sandbox's own Python, for a script that names no dependencies.
SYSTEM_PYTHON = Environment(PYTHON)


class PrepareFailed(Exception):
    """Preparation failed. `detail` is one printable line for the task's owner."""

    def __init__(self, reason: EndReason, detail: str):
        self.reason = reason
        self.detail = one_line(detail)
        super().__init__(self.detail)


class HostsUnreachable(PrepareFailed):
    """This node cannot reach where something is fetched from; no task is to blame."""

    def __init__(self, detail: str, hosts: list[str]):
        super().__init__(EndReason.SANDBOX_FAILED, detail)
        self.hosts = hosts


def prepare_failed(detail: str) -> PrepareFailed:
    return PrepareFailed(EndReason.PREPARE_FAILED, detail)
