"""Processes held by a pidfd, so that no signal ever reaches a process that reuses the pid.

A held process can be awaited and killed regardless of its parent. Its exit status and CPU usage
can be read afterwards, as far as the kernel still has them.
"""

import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import struct
from contextlib import suppress
from pathlib import Path
from typing import Self

from potluck.provider.sandbox.driver import wait_readable

# From linux/pidfd.h and linux/prctl.h. PIDFD_INFO_EXIT works since Linux 6.15.
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("=QQ11Ii")
_PR_SET_CHILD_SUBREAPER = 36


class HeldProcess:
    """One process. Call `close` when done."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        ready = select.poll()
        ready.register(self._pidfd, select.POLLIN)
        return not ready.poll(0)

    async def ended(self) -> None:
        await wait_readable(self._pidfd)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def reap(self) -> tuple[int, resource.struct_rusage] | None:
        """Its wait status and resource usage; None if it is not our child."""
        try:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:
            return None
        return (status, used) if pid == self.pid else None

    def wait_status(self) -> int | None:
        """Its wait status even if another process has reaped it; None on older kernels."""
        answer = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._pidfd, _PIDFD_GET_INFO, answer)
        except OSError as refused:
            if refused.errno in {errno.ENOTTY, errno.EINVAL, errno.ESRCH}:
                return None
            raise
        mask, *_, status = _PIDFD_INFO.unpack(answer)
        return int(status) if mask & _PIDFD_INFO_EXIT else None

    def close(self) -> None:
        os.close(self._pidfd)


def adopt_orphans() -> None:
    """Makes this process the parent of its orphaned descendants, so that it can reap them.

    bubblewrap's outer process ends before the inner one. Without this, the inner one's CPU usage
    would go to the system's init.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def can_list_children(pid: int) -> bool:
    """Whether the kernel was built to list children, and the process exists."""
    return _children(pid).exists()


def first_child(pid: int) -> int | None:
    with suppress(OSError):
        children = _children(pid).read_text().split()
        return int(children[0]) if children else None
    return None


def _children(pid: int) -> Path:
    return Path(f"/proc/{pid}/task/{pid}/children")


def find_processes(argument_zero: str) -> list[int]:
    """Processes of our user with this argv[0]."""
    entries = Path("/proc").glob("[0-9]*")
    return [int(entry.name) for entry in entries if _is_named(entry, argument_zero)]


def _is_named(entry: Path, argument_zero: str) -> bool:
    with suppress(OSError):
        is_ours = entry.stat().st_uid == os.geteuid()
        return is_ours and _first_word(entry) == argument_zero.encode()
    return False


def _first_word(entry: Path) -> bytes:
    return (entry / "cmdline").read_bytes().split(b"\0")[0]
