"""The system-call filter of the sandbox, assembled here so that no library is needed.

The program is classic BPF over the kernel's `seccomp_data`. It guarantees that inside

- no user or other namespace is made or entered, nothing is mounted, no process is traced;
- sockets are local, IP or the routing table's, nothing else (so no vsock, packet or crypto ones);
- no key is typed into a terminal, and the memory layout cannot be weakened;
- a call of another architecture or of the x32 kind ends the process.

Everything else is allowed: the other walls are namespaces, the missing capabilities and the uid.
"""

import errno
import platform
import struct

from potluck.model.error import SandboxUnavailable
from potluck.provider.sandbox.syscalls import (
    ABSENT,
    CLONE,
    FORBIDDEN,
    IOCTL,
    PERSONALITY,
    SOCKET,
    SOCKETPAIR,
    UNSHARE,
    Processor,
    SystemCall,
)

# Instructions, as in linux/bpf_common.h and linux/filter.h.
_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06

# Answers, as in linux/seccomp.h.
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

# Where `seccomp_data` keeps the number, the architecture and the low half of each argument.
_NUMBER = 0
_ARCHITECTURE = 4
_ARGUMENTS = 16

_AUDIT = {Processor.X86_64: 0xC000003E, Processor.AARCH64: 0xC00000B7}
_X32_BIT = 0x40000000

# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. In clone(2) the low
# byte is the exit signal, which NEWTIME would overlap; there it does not exist.
CLONE_NAMESPACES = 0x7E020000
UNSHARE_NAMESPACES = CLONE_NAMESPACES | 0x80

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
PLAIN_PERSONALITY, ASK_PERSONALITY = 0, 0xFFFFFFFF

Instruction = tuple[int, int, int, int]


def compile_filter(machine: Processor) -> bytes:
    """The program for this processor, as `bwrap --seccomp` reads it."""
    program = _entry(machine)
    for call in ABSENT.values():
        program += _when(call, machine, _refuse(errno.ENOSYS))
    for call in FORBIDDEN.values():
        program += _when(call, machine, _refuse(errno.EPERM))
    program += _when(CLONE, machine, _unless_any_bit(0, CLONE_NAMESPACES))
    program += _when(UNSHARE, machine, _unless_any_bit(0, UNSHARE_NAMESPACES))
    program += _when(SOCKET, machine, _only_ordinary_sockets())
    program += _when(SOCKETPAIR, machine, _only(0, (AF_UNIX,), errno.EAFNOSUPPORT))
    program += _when(IOCTL, machine, _none_of(1, (TIOCSTI, TIOCLINUX), errno.EPERM))
    program += _when(
        PERSONALITY, machine, _only(0, (PLAIN_PERSONALITY, ASK_PERSONALITY), errno.EPERM)
    )
    program.append(_answer(_ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def this_machine() -> Processor:
    try:
        return Processor(platform.machine())
    except ValueError as unknown:
        raise SandboxUnavailable(
            f"The system-call filter does not know this processor ({platform.machine()}).",
            "Provide from a machine with x86_64 or aarch64.",
        ) from unknown


def _entry(machine: Processor) -> list[Instruction]:
    """Ends what speaks another architecture's numbers; leaves the number loaded."""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        _answer(_KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine is Processor.X86_64:
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _answer(_KILL)]
    return program


def _when(call: SystemCall, machine: Processor, verdict: list[Instruction]) -> list[Instruction]:
    """The verdict, for this call only. It always returns, so the number stays loaded after it."""
    number = call.number(machine)
    if number is None:
        return []
    return [(_EQUAL, 0, len(verdict), number), *verdict]


def _refuse(number: int) -> list[Instruction]:
    return [_answer(_ERRNO | number)]


def _unless_any_bit(argument: int, bits: int) -> list[Instruction]:
    return [
        _load_argument(argument),
        (_ANY_BIT, 0, 1, bits),
        _answer(_ERRNO | errno.EPERM),
        _answer(_ALLOW),
    ]


def _only(argument: int, values: tuple[int, ...], number: int) -> list[Instruction]:
    """Allows these values of the argument and no other."""
    program = [_load_argument(argument)]
    for value in values:
        program += [(_EQUAL, 0, 1, value), _answer(_ALLOW)]
    return [*program, _answer(_ERRNO | number)]


def _none_of(argument: int, values: tuple[int, ...], number: int) -> list[Instruction]:
    program = [_load_argument(argument)]
    for value in values:
        program += [(_EQUAL, 0, 1, value), _answer(_ERRNO | number)]
    return [*program, _answer(_ALLOW)]


def _only_ordinary_sockets() -> list[Instruction]:
    """Local and IP sockets of any kind; of netlink's only the routing table (`if_nameindex`)."""
    netlink = _only(2, (NETLINK_ROUTE,), errno.EAFNOSUPPORT)
    return [
        _load_argument(0),
        (_EQUAL, 0, len(netlink), AF_NETLINK),
        *netlink,
        *_only(0, (AF_UNIX, AF_INET, AF_INET6), errno.EAFNOSUPPORT),
    ]


def _load_argument(index: int) -> Instruction:
    """The low half: the kernel itself looks at no more of flags, families and requests."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _answer(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)
