"""Any way to anybody else. Nothing is ever sent but to loopback and to the test's own interface."""

import fcntl
import os
import socket
from functools import partial
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import call

_SECONDS = 2.0
_PORT_OF_NOBODY = 9
_FLAGS_OF, _SET_FLAGS = 0x8913, 0x8914
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_LAST_FAMILY = 45


@probe("interfaces", "find an interface beside loopback")
def interfaces(bait: Bait) -> str | None:
    return " ".join(_others())


def _others() -> list[str]:
    return [name for _, name in socket.if_nameindex() if name != "lo"]


@probe("routes", "find a route that leads anywhere")
def routes(bait: Bait) -> str | None:
    lines = Path("/proc/net/route").read_text().splitlines()[1:]
    return " ".join(line.split()[0] for line in lines if line.split()[0] != "lo")


@probe("addresses", "find an address of the host")
def addresses(bait: Bait) -> str | None:
    text = Path("/proc/net/fib_trie").read_text()
    return " ".join(address for address in bait.addresses.values() if address in text)


def _ask(family: int, address: tuple[str, int] | str, bait: Bait) -> str | None:
    with socket.socket(family) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(address)
        return "answered" if bait.canary.encode() in connection.recv(200) else "connected"


@probe("loopback", "connect to a service on the host's loopback")
def loopback(bait: Bait) -> str | None:
    return _ask(socket.AF_INET, ("127.0.0.1", bait.neighbour.tcp_port), bait)


@probe("loopback-6", "connect to it by the other protocol")
def loopback_6(bait: Bait) -> str | None:
    return _ask(socket.AF_INET6, ("::1", bait.neighbour.tcp_port), bait)


@probe("loopback-datagram", "get an answer from a service of datagrams there")
def loopback_datagram(bait: Bait) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(_SECONDS)
        client.connect(("127.0.0.1", bait.neighbour.udp_port))
        client.send(b"hello")
        return "answered" if client.recv(200) else None


@probe("abstract-socket", "connect to a socket that has no file")
def abstract_socket(bait: Bait) -> str | None:
    return _ask(socket.AF_UNIX, f"\0{bait.neighbour.abstract}", bait)


def _neighbour(neighbour_name: str, bait: Bait) -> str | None:
    """Never tried where an interface leads elsewhere than to the test's own namespace."""
    other_addresses = _others()
    if not other_addresses:
        return None
    if bait.interface not in other_addresses:
        return f"could, by {other_addresses}"
    return _ask(socket.AF_INET, (bait.addresses[neighbour_name], bait.neighbour.tcp_port), bait)


add("metadata-service", "ask the cloud's metadata service", partial(_neighbour, "metadata"))
add("intranet", "connect to a neighbour on the local network", partial(_neighbour, "intranet"))


def _connect(socket_name: str, bait: Bait) -> str | None:
    return _ask(socket.AF_UNIX, bait.neighbour.sockets[socket_name], bait)


_LISTENERS = {
    "ssh-agent": "the agent that holds SSH keys",
    "session-bus": "the desktop's bus",
    "engine": "the container engine",
    "control": "the provider itself",
}
for _who, _words in _LISTENERS.items():
    add(f"socket-{_who}", f"connect to {_words}", partial(_connect, _who))


@probe("sockets-of-the-system", "find any socket of a service of the host")
def sockets_of_the_system(bait: Bait) -> str | None:
    usual = ("/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock")
    other_paths = ("/run/dbus/system_bus_socket", "/run/systemd/private", "/run/containerd")
    return " ".join(path for path in (*usual, *other_paths) if Path(path).exists())


def _socket(family: int, kind: int, protocol: int, bait: Bait) -> str | None:
    os.close(call("socket", family, kind, protocol))
    return "made"


_SOCKETS = {
    "packets": ("listen to all packets", (17, 3, 0)),
    "raw": ("send packets of its own making", (_INET, 3, 1)),
    "raw-6": ("send them by the other protocol", (_INET6, 3, 58)),
    "mptcp": ("connect by several paths at once", (_INET, 1, 262)),
    "mptcp-6": ("do so by the other protocol", (_INET6, 1, 262)),
    "udp-lite": ("send datagrams that are partly checked", (_INET, 2, 136)),
    "sctp": ("make a socket of another transport", (_INET, 1, 132)),
    "sctp-by-type": ("make one by its type alone", (_INET, 5, 0)),
    "dccp": ("make a socket of yet another", (_INET, 6, 33)),
    "l2tp": ("make a tunnel", (_INET, 2, 115)),
    "ping": ("send echoes without a raw socket", (_INET, 2, 1)),
    "vsock": ("talk to the machine that this one runs on", (40, 1, 0)),
    "kernel-crypto": ("use the kernel's ciphers", (38, 5, 0)),
    "audit": ("talk to the kernel's audit", (_NETLINK, 3, 9)),
    "device-events": ("hear of the host's devices", (_NETLINK, 3, 15)),
    "packet-filter": ("talk to the packet filter", (_NETLINK, 3, 12)),
}
for _name, (_tries, _numbers) in _SOCKETS.items():
    add(f"socket-{_name}", _tries, partial(_socket, *_numbers))


@probe("other-families", "make a socket of any other family")
def other_families(bait: Bait) -> str | None:
    families = []
    for family in {*range(_LAST_FAMILY + 1)} - {_UNIX, _INET, _INET6, _NETLINK}:
        for kind in (1, 2, 3, 5):
            try:
                os.close(call("socket", family, kind, 0))
            except OSError:
                continue
            families.append(str(family))
            break
    return " ".join(families)


@probe("configure-network", "configure an interface")
def configure_network(bait: Bait) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = fcntl.ioctl(any_socket, _FLAGS_OF, b"lo".ljust(40, b"\0"))
        fcntl.ioctl(any_socket, _SET_FLAGS, flags)
    return "it may"
