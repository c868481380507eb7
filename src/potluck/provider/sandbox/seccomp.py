"""The sandbox's system-call filter, assembled here so that no library is needed.

The program is classic BPF over the kernel's `seccomp_data`. It guarantees that inside

- no namespace is created or entered, nothing is mounted, no process is traced;
- sockets are Unix, TCP, UDP or netlink routing sockets only (no vsock, packet or crypto sockets,
  no MPTCP, UDP-Lite, SCTP or raw ones);
- no input is injected into a terminal, and the memory layout cannot be weakened;
- a system call of another architecture or of the x32 ABI kills the process.

Everything else is allowed: namespaces, missing capabilities and the uid confine the rest.
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
_AND = 0x54
_RETURN = 0x06

# Return values, as in linux/seccomp.h.
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_ERRNO = 0x00050000

# Offsets in `seccomp_data` of the number, the architecture and the first argument's low half.
_NUMBER = 0
_ARCHITECTURE = 4
_ARGUMENTS = 16

_AUDIT = {Processor.X86_64: 0xC000003E, Processor.AARCH64: 0xC00000B7}
_X32_BIT = 0x40000000

# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. clone(2) has no
# NEWTIME, which would overlap with the exit signal in the low byte.
CLONE_NAMESPACES = 0x7E020000
UNSHARE_NAMESPACES = CLONE_NAMESPACES | 0x80

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
# The type's bits; the others of that argument are flags.
TYPE_MASK, SOCK_STREAM, SOCK_DGRAM = 0xF, 1, 2
# 0 is the ordinary one of these types.
IP_PROTOCOLS = (0, 6, 17)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
PLAIN_PERSONALITY, ASK_PERSONALITY = 0, 0xFFFFFFFF

Instruction = tuple[int, int, int, int]


def compile_filter(machine: Processor) -> bytes:
    """The program in the format of `bwrap --seccomp`."""
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
    program.append(_return(_ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def this_machine() -> Processor:
    try:
        return Processor(platform.machine())
    except ValueError as unknown:
        raise SandboxUnavailable(
            f"The system-call filter does not support this processor ({platform.machine()}).",
            "Provide from a machine with x86_64 or aarch64.",
        ) from unknown


def _entry(machine: Processor) -> list[Instruction]:
    """Kills processes of other architectures; leaves the system call number loaded."""
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT[machine]),
        _return(_KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine is Processor.X86_64:
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _return(_KILL)]
    return program


def _when(call: SystemCall, machine: Processor, verdict: list[Instruction]) -> list[Instruction]:
    """Applies `verdict` to this call only. It always returns, so the number stays loaded."""
    number = call.number(machine)
    if number is None:
        return []
    return [(_EQUAL, 0, len(verdict), number), *verdict]


def _refuse(number: int) -> list[Instruction]:
    return [_return(_ERRNO | number)]


def _unless_any_bit(argument: int, bits: int) -> list[Instruction]:
    return [
        _load_argument(argument),
        (_ANY_BIT, 0, 1, bits),
        _return(_ERRNO | errno.EPERM),
        _return(_ALLOW),
    ]


def _only(argument: int, values: tuple[int, ...], number: int) -> list[Instruction]:
    """Allows these values of the argument only."""
    program = [_load_argument(argument)]
    for value in values:
        program += [(_EQUAL, 0, 1, value), _return(_ALLOW)]
    return [*program, _return(_ERRNO | number)]


def _none_of(argument: int, values: tuple[int, ...], number: int) -> list[Instruction]:
    program = [_load_argument(argument)]
    for value in values:
        program += [(_EQUAL, 0, 1, value), _return(_ERRNO | number)]
    return [*program, _return(_ALLOW)]


def _only_ordinary_sockets() -> list[Instruction]:
    """Unix sockets, TCP and UDP; netlink for the routing table only (`if_nameindex`)."""
    netlink = _only(2, (NETLINK_ROUTE,), errno.EAFNOSUPPORT)
    return [
        _load_argument(0),
        (_EQUAL, 0, len(netlink), AF_NETLINK),
        *netlink,
        (_EQUAL, 0, 1, AF_UNIX),
        _return(_ALLOW),
        (_EQUAL, 2, 0, AF_INET),
        (_EQUAL, 1, 0, AF_INET6),
        _return(_ERRNO | errno.EAFNOSUPPORT),
        _load_argument(1),
        (_AND, 0, 0, TYPE_MASK),
        (_EQUAL, 2, 0, SOCK_STREAM),
        (_EQUAL, 1, 0, SOCK_DGRAM),
        _return(_ERRNO | errno.ESOCKTNOSUPPORT),
        *_only(2, IP_PROTOCOLS, errno.EPROTONOSUPPORT),
    ]


def _load_argument(index: int) -> Instruction:
    """Loads the low half: the kernel uses no more of flags, families and requests."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _return(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)
