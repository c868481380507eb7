"""What is the whole machine's: the kernel's settings and secrets, control groups, shared memory."""

import ctypes
import os
from functools import partial
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import call

_SETTINGS = {
    "core-pattern": ("have the kernel start a program of its own", "/proc/sys/kernel/core_pattern"),
    "modprobe-path": ("have it start another", "/proc/sys/kernel/modprobe"),
    "system-request": ("crash the machine by a key", "/proc/sysrq-trigger"),
    "uevent-helper": ("have it start one for devices", "/sys/kernel/uevent_helper"),
    "overcommit": ("change how memory is handed out", "/proc/sys/vm/overcommit_memory"),
    "threads-max": ("change how many threads there may be", "/proc/sys/kernel/threads-max"),
    "binary-formats": ("say how programs are started", "/proc/sys/fs/binfmt_misc/register"),
}


def _opens_for_writing(path: str, bait: Bait) -> str | None:
    """Nothing is written."""
    os.close(os.open(path, os.O_WRONLY))
    return f"opened {path}"


for _name, (_tries, _path) in _SETTINGS.items():
    add(_name, _tries, partial(_opens_for_writing, _path))


def _reads(path: str, bait: Bait) -> str | None:
    with Path(path).open("rb", buffering=0) as file:
        os.set_blocking(file.fileno(), False)
        return "bytes" if file.read(64) else None


_SECRETS = {
    "kernel-memory": ("read the kernel's memory", "/proc/kcore"),
    "kernel-messages": ("read the kernel's log from its file", "/proc/kmsg"),
    "timers": ("read the kernel's timers", "/proc/timer_list"),
}
for _name, (_tries, _path) in _SECRETS.items():
    add(_name, _tries, partial(_reads, _path))


def _same_boot(path: str, bait: Bait) -> str | None:
    text = Path(path).read_text()
    return text if text.strip() and text == bait.boot[path] else None


_BOOT = {
    "boot-parameters": ("read what the kernel was started with", "/proc/cmdline"),
    "boot-number": ("recognise the machine by its boot", "/proc/sys/kernel/random/boot_id"),
}
for _name, (_tries, _path) in _BOOT.items():
    add(_name, _tries, partial(_same_boot, _path))


@probe("kernel-addresses", "learn where the kernel lies")
def kernel_addresses(bait: Bait) -> str | None:
    with Path("/proc/kallsyms").open() as file:
        first = file.readline()
    return first if int(first.split()[0] if first else "0", 16) else None


@probe("debug-files", "look into the kernel's debug files")
def debug_files(bait: Bait) -> str | None:
    shut = ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security")
    return " ".join(path for path in shut if Path(path).is_dir() and os.listdir(path))  # noqa: PTH208


@probe("system-tree", "find a file of /sys that it may write")
def system_tree(bait: Bait) -> str | None:
    for number, (folder, _, names) in enumerate(os.walk("/sys")):
        if writable := [name for name in names if os.access(f"{folder}/{name}", os.W_OK)]:
            return f"{folder}/{writable[0]}"
        if number > 5000:
            break
    return None


@probe("control-groups", "leave its control group, or change the limits of it")
def control_groups(bait: Bait) -> str | None:
    for folder, _, names in os.walk("/sys/fs/cgroup"):
        for name in {"cgroup.procs", "tasks", "release_agent"} & set(names):
            if os.access(f"{folder}/{name}", os.W_OK):
                return f"{folder}/{name}"
    return None


@probe("shared-memory", "attach the shared memory of a process of the host")
def shared_memory(bait: Bait) -> str | None:
    segment = call("shmget", bait.neighbour.shared_memory_key, 0, 0)
    text = ctypes.string_at(call("shmat", segment, None, 0o10000), len(bait.canary))
    return "read it" if text.decode() == bait.canary else None


@probe("shared-memory-file", "read what a process of the host keeps in /dev/shm")
def shared_memory_file(bait: Bait) -> str | None:
    return "read it" if bait.canary in Path(bait.files["shm"]).read_text() else None


@probe("message-queue", "open a message queue of the host")
def message_queue(bait: Bait) -> str | None:
    name = bait.neighbour.queue.encode()
    return f"opened {call('mq_open', name, os.O_RDONLY | os.O_NONBLOCK, 0, None)}"


@probe("drivers", "learn from drivers what other devices there are")
def drivers(bait: Bait) -> str | None:
    path = Path("/proc/driver")
    return " ".join(path.name for path in path.iterdir()) if path.is_dir() else None
