"""More than an ordinary user without any right: capabilities, other users, other limits."""

import ctypes
import errno
import os
import resource
import stat
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import call

_VERSION_3 = 0x20080522
_REAL_TIME, _OF_PROCESS = 1 << 13, 1
_GET_NO_NEW_PRIVILEGES = 39


def _status(field: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith(field)), "")


def _any_bit(field: str, bait: Bait) -> str | None:
    return f"{field} {_status(field)}" if int(_status(field) or "0", 16) else None


_SETS = {"effective": "CapEff", "permitted": "CapPrm", "bounding": "CapBnd", "ambient": "CapAmb"}
for _name, _field in _SETS.items():
    add(f"capabilities-{_name}", f"have a capability that is {_name}", partial(_any_bit, _field))


@probe("take-capability", "take a capability")
def take_capability(bait: Bait) -> str | None:
    header, capabilities = struct.pack("=Ii", _VERSION_3, 0), struct.pack("=6I", *[0xFFFFFFFF] * 6)
    call("capset", header, capabilities)
    return "took all"


@probe("new-privileges", "be let gain privileges by starting a program")
def new_privileges(bait: Bait) -> str | None:
    is_set = ctypes.CDLL(None).prctl(_GET_NO_NEW_PRIVILEGES, 0, 0, 0, 0)
    return None if is_set == 1 else "no_new_privs is not set"


@contextmanager
def _where_root_exists() -> Iterator[None]:
    """In a user namespace without a root the kernel calls it an invalid one."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise PermissionError(errno.EPERM, "root") from error
        raise


@probe("be-root", "be root, or become it")
def be_root(bait: Bait) -> str | None:
    with _where_root_exists():
        os.setuid(0)
    return f"is {os.getuid()}"


@probe("root-group", "be in root's group, or join it")
def root_group(bait: Bait) -> str | None:
    if 0 in {os.getgid(), os.getegid(), *os.getgroups()}:
        return "is in it"
    os.setgroups([0])
    return "joined"


@probe("setuid-program", "become root by a program of the system that makes one root")
def setuid_program(bait: Bait) -> str | None:
    """`su` waits for a password that never comes, and its user is looked at meanwhile."""
    with subprocess.Popen(["/usr/bin/su"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as su:
        try:
            is_root = any(_effective_user(su.pid) == "0" for _ in range(50))
        finally:
            su.kill()
    return "is root" if is_root else None


def _effective_user(pid: int) -> str:
    """Asked again and again: a program becomes another user a moment after it has begun."""
    time.sleep(0.01)
    return Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[1]


@probe("shown-setuid-program", "become root by such a program in a directory shown inside")
def shown_setuid_program(bait: Bait) -> str | None:
    process = subprocess.run([f"{bait.shown}/whoami", "-u"], capture_output=True, check=True)
    return "is root" if process.stdout.strip() == b"0" else None


@probe("file-capability", "give a file of its own a capability")
def file_capability(bait: Bait) -> str | None:
    Path("a-program").touch()
    os.setxattr("a-program", "security.capability", bytes.fromhex("0100000200200000" + "0" * 24))
    return "given"


@probe("setuid-root-file", "make a file that is root's and runs as root")
def setuid_root_file(bait: Bait) -> str | None:
    Path("a-root-file").touch(0o4755)
    with _where_root_exists():
        os.chown("a-root-file", 0, 0)
    Path("a-root-file").chmod(0o4755)
    return "made" if Path("a-root-file").stat().st_mode & stat.S_ISUID else None


def _raise(limit: int, bait: Bait) -> str | None:
    _, hard = resource.getrlimit(limit)
    if hard == resource.RLIM_INFINITY:
        return "there is none"
    resource.setrlimit(limit, (hard + 1, hard + 1))
    return f"from {hard} to {hard + 1}"


def _refusing(limit: int, bait: Bait) -> str | None:
    try:
        return _raise(limit, bait)
    except ValueError as error:  # what the standard library makes of EPERM
        raise PermissionError(1, str(error)) from error


add("more-files", "raise its limit of open files", partial(_refusing, resource.RLIMIT_NOFILE))
add(
    "core-dumps",
    "have its memory written where the host says",
    partial(_refusing, resource.RLIMIT_CORE),
)


@probe("priority", "go before others on the processor")
def priority(bait: Bait) -> str | None:
    return f"is nice {os.nice(-5)}"


@probe("real-time", "go before everybody on the processor")
def real_time(bait: Bait) -> str | None:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError as error:
        if error.errno == errno.EINVAL:  # a kernel that has no such class
            return None
        raise
    return "it may"


@probe("disk-priority", "go before everybody on the disk")
def disk_priority(bait: Bait) -> str | None:
    call("ioprio_set", _OF_PROCESS, 0, _REAL_TIME)
    return "it may"


@probe("spared", "be spared when the machine runs out of memory")
def spared(bait: Bait) -> str | None:
    Path("/proc/self/oom_score_adj").write_text("-500")
    return "it is"
