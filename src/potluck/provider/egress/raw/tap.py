"""The interface of a sandbox, made in its network namespace by a process that enters it.

The process needs the rights of the namespace's owner: as root it has them, and an ordinary user has
them in the user namespace that bwrap made for them.
"""

import ctypes
import fcntl
import os
import socket
import struct
from contextlib import suppress
from pathlib import Path

from potluck.provider.egress.raw.packets import GATEWAY, INSIDE, PREFIX_BITS

TUN = Path("/dev/net/tun")
_NAME = b"net0"
# Of this network. The link is short, and passt repeats late what exceeds its own buffer.
_RECEIVE_BUFFERS, _SMALL_BUFFERS = Path("/proc/sys/net/ipv4/tcp_rmem"), "4096 131072 262144"
_MTU = 65_520  # passt's; fewer and larger packets cost less
_NEW_USER, _NEW_NET = 0x1000_0000, 0x4000_0000
_GET_USER_NAMESPACE = 0xB701
_SET_INTERFACE, _TAP, _NO_HEADER = 0x4004_54CA, 0x0002, 0x1000
_SET_FLAGS, _SET_ADDRESS, _SET_NETMASK, _SET_MTU, _ADD_ROUTE = (
    0x8914,
    0x8916,
    0x891C,
    0x8922,
    0x890B,
)
_UP, _RUNNING = 0x1, 0x40
_ROUTE_UP, _ROUTE_GATEWAY = 0x1, 0x2


def enter_network_of(pid: int) -> None:
    """Moves this process, which must have one thread, into the network of another."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    owner = fcntl.ioctl(network, _GET_USER_NAMESPACE)
    if os.fstat(owner).st_ino != Path("/proc/self/ns/user").stat().st_ino:
        _enter(owner, _NEW_USER)
    _enter(network, _NEW_NET)
    os.close(owner)
    os.close(network)


def _enter(namespace: int, kind: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")


def open_tap() -> int:
    """A new interface of this process's network, with its address and a default route."""
    tap = os.open(TUN, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.ioctl(tap, _SET_INTERFACE, struct.pack("16sH22x", _NAME, _TAP | _NO_HEADER))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as configuring:
        mask = socket.inet_ntoa(struct.pack(">I", 0xFFFF_FFFF << (32 - PREFIX_BITS) & 0xFFFF_FFFF))
        for request, value in (
            (_SET_ADDRESS, _socket_address(INSIDE)),
            (_SET_NETMASK, _socket_address(mask)),
            (_SET_MTU, struct.pack("i", _MTU)),
            (_SET_FLAGS, struct.pack("h", _UP | _RUNNING)),
        ):
            fcntl.ioctl(configuring, request, struct.pack("16s24s", _NAME, value))
        nowhere, gateway = _socket_address("0.0.0.0"), _socket_address(GATEWAY)  # noqa: S104
        flags = _ROUTE_UP | _ROUTE_GATEWAY
        route = struct.pack(
            "@L16s16s16sHhLPhPLLH", 0, nowhere, gateway, nowhere, flags, 0, 0, 0, 0, 0, 0, 0, 0
        )
        fcntl.ioctl(configuring, _ADD_ROUTE, route.ljust(128, b"\0"))
    with suppress(OSError):  # only slower without it
        _RECEIVE_BUFFERS.write_text(_SMALL_BUFFERS)
    return tap


def _socket_address(address: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
