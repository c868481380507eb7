"""Runs inside a sandbox with a raw network: tries to reach each address in every way that an
ordinary program has, and prints what came of it."""

import json
import socket
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

SECONDS = 3.0
IP_UNICAST_IF, SO_BINDTODEVICE, MSG_FASTOPEN = 50, 25, 0x20000000
IP_PKTINFO = 8


def stream() -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    end.settimeout(SECONDS)
    return end


def datagram() -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.settimeout(0.3)
    return end


def bound(end: socket.socket) -> socket.socket:
    """To the interface: the kernel then takes every address for one on its link."""
    end.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"net0\0")
    return end


def by_index(end: socket.socket) -> socket.socket:
    index = socket.if_nametoindex("net0")
    end.setsockopt(socket.IPPROTO_IP, IP_UNICAST_IF, struct.pack(">I", index))
    return end


def connect(end: socket.socket, address: tuple[str, int]) -> str:
    with end:
        end.connect(address)
        return "open"


def ask(end: socket.socket, address: tuple[str, int]) -> str:
    with end:
        end.sendto(b"hello", address)
        return "open" if end.recv(100) == b"hello" else "other"


def ask_with_interface(address: tuple[str, int]) -> str:
    with datagram() as end:
        index = socket.if_nametoindex("net0")
        info = struct.pack("I4s4s", index, bytes(4), bytes(4))
        end.sendmsg([b"hello"], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, address)
        return "open" if end.recv(100) == b"hello" else "other"


def send_early(address: tuple[str, int]) -> str:
    with stream() as end:
        end.sendto(b"GET / HTTP/1.0\r\n\r\n", MSG_FASTOPEN, address)
        return "open" if end.recv(100) else "closed"


def from_loopback(address: tuple[str, int]) -> str:
    end = stream()
    end.settimeout(1.0)
    end.bind(("127.0.0.1", 0))
    return connect(end, address)


WAYS: dict[str, Callable[[tuple[str, int]], str]] = {
    "connect": lambda address: connect(stream(), address),
    "connect on the interface": lambda address: connect(bound(stream()), address),
    "connect by the interface's index": lambda address: connect(by_index(stream()), address),
    "connect from loopback": from_loopback,
    "early data": send_early,
    "datagram": lambda address: ask(datagram(), address),
    "datagram on the interface": lambda address: ask(bound(datagram()), address),
    "datagram by the interface's index": lambda address: ask(by_index(datagram()), address),
    "datagram with an interface": ask_with_interface,
    "name": lambda address: socket.gethostbyname(address[0]),
}


def main(path: str) -> None:
    with open(path) as file:  # noqa: PTH123
        tries = json.load(file)
    with ThreadPoolExecutor(16) as threads:
        for result in threads.map(attempt, tries):
            print(json.dumps(result), flush=True)


def attempt(entry: tuple[str, str, int]) -> tuple[str, str, int, str]:
    way, host, port = entry
    try:
        return (*entry, WAYS[way]((host, port)))
    except OSError as error:
        return (*entry, f"blocked: {error}")


if __name__ == "__main__":
    main(sys.argv[1])
