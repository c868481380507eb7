"""The system-call filter as a profile for container runtimes: the same rules as in `seccomp.py`.

Runtimes compile it with libseccomp, which compares all 64 bits of an argument where the kernel uses
32; so socket families with a non-zero high half are refused as well. libseccomp's own rule kills
processes of other architectures.
"""

import errno
from collections.abc import Iterable, Sequence

from potluck.provider.sandbox import seccomp
from potluck.provider.sandbox.syscalls import ABSENT, FORBIDDEN, Processor

_ARCHITECTURES = {Processor.X86_64: "SCMP_ARCH_X86_64", Processor.AARCH64: "SCMP_ARCH_AARCH64"}
_FAMILIES = (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
_LOW_HALF = 0xFFFFFFFF
_BITS = 32

Condition = dict[str, int | str]
Rule = dict[str, object]


def make_profile(machine: Processor, is_for_gvisor: bool = False) -> dict[str, object]:
    """gVisor always refuses with EPERM, after which programs do not fall back from clone3. So
    clone3 is left to gVisor, which has none, or one that stays inside."""
    absent = sorted(set(ABSENT) - ({"clone3"} if is_for_gvisor else set()))
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [_ARCHITECTURES[machine]],
        "syscalls": [
            _refuse(absent, errno.ENOSYS),
            _refuse(sorted(FORBIDDEN), errno.EPERM),
            *_any_bit("clone", seccomp.CLONE_NAMESPACES),
            *_any_bit("unshare", seccomp.UNSHARE_NAMESPACES),
            *_sockets(),
            _refuse(["socketpair"], errno.EAFNOSUPPORT, _differs(0, seccomp.AF_UNIX)),
            _refuse(["ioctl"], errno.EPERM, _masked(1, _LOW_HALF, seccomp.TIOCSTI)),
            _refuse(["ioctl"], errno.EPERM, _masked(1, _LOW_HALF, seccomp.TIOCLINUX)),
            *_personalities(),
        ],
    }


def _any_bit(name: str, bits: int) -> list[Rule]:
    masks = [1 << position for position in range(_BITS) if bits >> position & 1]
    return [_refuse([name], errno.EPERM, _masked(0, mask, mask)) for mask in masks]


def _sockets() -> list[Rule]:
    """Refuses all other families, netlink except for the routing table, and of IP all but TCP and
    UDP."""
    rules = [_refuse(["socket"], errno.EAFNOSUPPORT, other) for other in _all_but(0, _FAMILIES)]
    netlink = _compared(0, "SCMP_CMP_EQ", seccomp.AF_NETLINK)
    not_routes = _differs(2, seccomp.NETLINK_ROUTE)
    rules.append(_refuse(["socket"], errno.EAFNOSUPPORT, netlink, not_routes))
    for family in (seccomp.AF_INET, seccomp.AF_INET6):
        ip = _compared(0, "SCMP_CMP_EQ", family)
        rules += [_refuse(["socket"], errno.ESOCKTNOSUPPORT, ip, other) for other in _OTHER_TYPES]
        rules += [
            _refuse(["socket"], errno.EPROTONOSUPPORT, ip, other)
            for other in _all_but(2, seccomp.IP_PROTOCOLS)
        ]
    return rules


def _all_but(argument: int, values: Sequence[int]) -> list[Condition]:
    """One condition for each other value up to the largest, and one for all beyond."""
    others = [value for value in range(max(values)) if value not in values]
    conditions = [_compared(argument, "SCMP_CMP_EQ", value) for value in others]
    return [*conditions, _compared(argument, "SCMP_CMP_GT", max(values))]


def _personalities() -> list[Rule]:
    """Refuses all but the plain personality (no bit) and the query (all bits): in any other value
    some bit differs from its cyclic neighbour."""
    assert (seccomp.PLAIN_PERSONALITY, seccomp.ASK_PERSONALITY) == (0, _LOW_HALF)
    pairs = [(1 << position, 1 << (position + 1) % _BITS) for position in range(_BITS)]
    differing = [_masked(0, bit | neighbour, bit) for bit, neighbour in pairs]
    return [_refuse(["personality"], errno.EPERM, condition) for condition in differing]


def _refuse(names: Iterable[str], number: int, *conditions: Condition) -> Rule:
    return {
        "names": list(names),
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": number,
        "args": list(conditions),
    }


def _differs(argument: int, value: int) -> Condition:
    return _compared(argument, "SCMP_CMP_NE", value)


def _masked(argument: int, mask: int, value: int) -> Condition:
    return {"index": argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _compared(argument: int, operation: str, value: int) -> Condition:
    return {"index": argument, "value": value, "valueTwo": 0, "op": operation}


_OTHER_TYPES = [
    _masked(1, seccomp.TYPE_MASK, kind)
    for kind in range(seccomp.TYPE_MASK + 1)
    if kind not in (seccomp.SOCK_STREAM, seccomp.SOCK_DGRAM)
]
