"""Ways into the kernel that nothing which computes needs."""

import ctypes
import os
import platform
import struct
from functools import partial

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import Argument, call, passes, room

_NOWHERE = b"/nowhere"
_SESSION = -3  # the keyring
_USER_MODE_ONLY = 1
_NO_RANDOMISATION = 0x0040000
_PAGE = b"\0"
# name of the probe: what it tries, the call, its arguments
_CALLS: dict[str, tuple[str, str, tuple[Argument, ...]]] = {
    "keyring": ("look at the kernel's keyring", "keyctl", (0, _SESSION, 0)),
    "add-key": ("add a key to it", "add_key", (b"user", b"potluck", b"x", 1, _SESSION)),
    "request-key": ("ask for a key, by a program of root's", "request_key", (b"user", b"x", 0, 0)),
    "io-uring": ("make a ring of system calls", "io_uring_setup", (1, room(120))),
    "bpf": ("load a program into the kernel", "bpf", (0, room(72), 72)),
    "perf": ("watch the processor's counters", "perf_event_open", (room(128), 0, -1, -1, 0)),
    "userfaultfd": ("hold the kernel up at a page", "userfaultfd", (_USER_MODE_ONLY,)),
    "kernel-log": ("read the kernel's log", "syslog", (3, room(4096), 4096)),
    "kexec": ("start another kernel", "kexec_load", (0, 1 << 20, None, 0)),
    "load-module": ("load a module", "init_module", (None, 0, b"")),
    "load-module-file": ("load a module from a file", "finit_module", (-1, b"", 0)),
    "unload-module": ("remove a module", "delete_module", (b"potluck-no-such", 0)),
    "swap": ("give the kernel a file to swap to", "swapon", (_NOWHERE, 0)),
    "reboot": ("restart the machine", "reboot", (0, 0, 0, None)),
    "set-time": ("set the clock", "settimeofday", (None, None)),
    "host-name": ("rename the host", "sethostname", (b"potluck", 7)),
    "domain-name": ("rename its domain", "setdomainname", (b"potluck", 7)),
    "accounting": ("write down all processes", "acct", (_NOWHERE,)),
    "quota": ("change quotas", "quotactl", (0x800002 << 8, None, 0, None)),
    "watch-files": ("watch all files of a mount", "fanotify_init", (0x200, 0)),
    "io-ports": ("talk to the hardware's ports", "iopl", (3,)),
    "io-port": ("talk to one of them", "ioperm", (0x80, 1, 1)),
    "compare-processes": ("compare kernel objects of processes", "kcmp", (1, 1, 0, 0, 0)),
    "advise": ("change the memory of another process", "process_madvise", (-1, None, 0, 0, 0)),
    "write-memory": ("write into another process", "process_vm_writev", (1, None, 0, None, 0, 0)),
}


def _passes(name: str, arguments: tuple[Argument, ...], bait: Bait) -> str | None:
    return passes(name, *arguments)


for _name, (_tries, _call, _arguments) in _CALLS.items():
    add(_name, _tries, partial(_passes, _call, _arguments))


@probe("weak-layout", "turn off what hides where programs lie in memory")
def weak_layout(bait: Bait) -> str | None:
    call("personality", _NO_RANDOMISATION)
    return "turned off"


@probe("other-architecture", "speak the numbers of another architecture, past the filter")
def other_architecture(bait: Bait) -> str | None:
    """x32's getpid. Where there is none of it, the 32-bit gate of a processor is none either."""
    if platform.machine() != "x86_64":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    ctypes.set_errno(0)
    if libc.syscall(0x40000000 + 39) > 0:
        return "answered"
    raise OSError(ctypes.get_errno(), "x32")


@probe("clone3", "make a process by a call whose flags no filter can read")
def clone3(bait: Bait) -> str | None:
    arguments = ctypes.create_string_buffer(struct.pack("=11Q", 0, 0, 0, 0, 17, *[0] * 6), 88)
    if call("clone3", arguments, 88) == 0:
        os._exit(0)
    return "made one"
