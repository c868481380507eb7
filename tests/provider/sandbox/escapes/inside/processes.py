"""Processes of the host: to see, to read, to signal, to trace."""

import ctypes
import os
import resource
import struct
import sys
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import address_of, call, passes, room

_SEIZE = 0x4206
_ENDS_OF_PIPES = 3


@probe("own-environment", "find the provider's variables among its own")
def own_environment(bait: Bait) -> str | None:
    names = [name for name, value in os.environ.items() if bait.canary in value]
    return " ".join(
        names + [name for name in ("SSH_AUTH_SOCK", "DOCKER_HOST") if name in os.environ]
    )


def _anywhere(file: str, bait: Bait) -> str | None:
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        try:
            if bait.canary.encode() in path.read_bytes():
                return str(path)
        except OSError:
            continue
    return None


@probe("environments", "find the provider's token in the environment of any process")
def environments(bait: Bait) -> str | None:
    return _anywhere("environ", bait)


@probe("command-lines", "find a secret in the arguments of any process")
def command_lines(bait: Bait) -> str | None:
    return _anywhere("cmdline", bait)


@probe("see-process", "see a process of the host in /proc")
def see_process(bait: Bait) -> str | None:
    return Path(f"/proc/{bait.neighbour.pid}/status").read_text().split("\n")[0]


@probe("signal-process", "send a signal to a process of the host")
def signal_process(bait: Bait) -> str | None:
    os.kill(bait.neighbour.pid, 0)
    return "it may"


@probe("slow-process", "take a process of the host its priority")
def slow_process(bait: Bait) -> str | None:
    os.setpriority(os.PRIO_PROCESS, bait.neighbour.pid, 5)
    return "it may"


@probe("limit-process", "set limits of a process of the host")
def limit_process(bait: Bait) -> str | None:
    return str(resource.prlimit(bait.neighbour.pid, resource.RLIMIT_NOFILE))


@probe("trace-process", "trace a process of the host")
def trace_process(bait: Bait) -> str | None:
    call("ptrace", _SEIZE, bait.neighbour.pid, 0, 0)
    return "traced"


@probe("trace-child", "trace a process of its own, by the calls that tracing is made of")
def trace_child(bait: Bait) -> str | None:
    return passes("ptrace", _SEIZE, os.getppid(), 0, 0)


@probe("read-memory", "read the memory of a process of the host by a call")
def read_memory(bait: Bait) -> str | None:
    size = len(bait.canary)
    buffer = room(size + 1)
    local_vector = ctypes.create_string_buffer(struct.pack("=QQ", address_of(buffer), size))
    remote_vector = ctypes.create_string_buffer(struct.pack("=QQ", bait.neighbour.address, size))
    call("process_vm_readv", bait.neighbour.pid, local_vector, 1, remote_vector, 1, 0)
    return "read it" if buffer.value.decode() == bait.canary else None


@probe("memory-file", "read the memory of a process of the host by its file")
def memory_file(bait: Bait) -> str | None:
    with Path(f"/proc/{bait.neighbour.pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(bait.neighbour.address)
        return "read it" if memory.read(len(bait.canary)).decode() == bait.canary else None


@probe("take-descriptor", "take a descriptor out of a process of the host")
def take_descriptor(bait: Bait) -> str | None:
    pidfd = call("pidfd_open", bait.neighbour.pid, 0)
    return f"took {call('pidfd_getfd', pidfd, 1, 0)}"


@probe("descriptors-of-a-process", "list what a process of the host has open")
def descriptors_of_a_process(bait: Bait) -> str | None:
    return " ".join(os.listdir(f"/proc/{bait.neighbour.pid}/fd"))  # noqa: PTH208


@probe("inherited-descriptors", "find a descriptor that somebody forgot to close")
def inherited_descriptors(bait: Bait) -> str | None:
    """Beyond the three streams, the probe's own pipe, and what the list is read by."""
    descriptors = []
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            target = str(Path(f"/proc/self/fd/{name}").readlink())
        except OSError:
            continue
        if (
            int(name) >= _ENDS_OF_PIPES
            and not target.startswith("pipe:")
            and "/proc/" not in target
        ):
            descriptors.append(f"{name} is {target}")
    return " ".join(descriptor for descriptor in descriptors if sys.argv[0] not in descriptor)


@probe("standard-input", "read or write what the provider's own input is")
def standard_input(bait: Bait) -> str | None:
    target = str(Path("/proc/self/fd/0").readlink())
    return None if target in {"/dev/null", "/null"} or "pipe:" in target else target
