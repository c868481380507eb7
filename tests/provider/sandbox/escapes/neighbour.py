"""A process of the host that has something to hide, and services that only the host may reach.

    neighbour.py CANARY DIRECTORY

It says in one JSON line what it laid out, and ends when its input does. Given a network namespace
of its own by whoever starts it, all of its services live there: an intranet, a metadata service and
the host's loopback are what it answers on.
"""

import ctypes
import json
import os
import select
import socket
import sys
from dataclasses import asdict
from pathlib import Path

from tests.provider.sandbox.escapes.inside.bait import Neighbour

SOCKETS = ("ssh-agent", "session-bus", "engine", "control")
_CREATE = 0o1000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.shmat.restype = ctypes.c_void_p


def lay_out(canary: str, directory: Path) -> tuple[Neighbour, list[socket.socket]]:
    tcp = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    abstract = f"potluck-{os.getpid()}"
    local = {name: str(directory / name) for name in SOCKETS}
    listeners = [tcp, udp, *map(_listen, (f"\0{abstract}", *local.values()))]
    for path in local.values():
        Path(path).chmod(0o777)
    key = os.getpid() + (1 << 20)
    _share(canary, key, abstract)
    neighbour = Neighbour(
        pid=os.getpid(),
        address=_in_memory(canary),
        tcp_port=tcp.getsockname()[1],
        udp_port=udp.getsockname()[1],
        abstract=abstract,
        sockets=local,
        shared_memory_key=key,
        queue=abstract,
    )
    return neighbour, listeners


def _listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    return listener


_KEPT: list[object] = []


def _in_memory(canary: str) -> int:
    buffer = ctypes.create_string_buffer(canary.encode())
    _KEPT.append(buffer)
    return ctypes.addressof(buffer)


def _share(canary: str, key: int, queue: str) -> None:
    segment = _LIBC.shmget(key, 4096, _CREATE | 0o666)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    ctypes.memmove(_LIBC.shmat(segment, None, 0), canary.encode(), len(canary))
    queue_descriptor = _LIBC.mq_open(f"/{queue}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    assert queue_descriptor >= 0, os.strerror(ctypes.get_errno())


def answer(canary: str, listeners: list[socket.socket]) -> None:
    by_number = {listener.fileno(): listener for listener in listeners}
    while True:
        ready, _, _ = select.select([sys.stdin.fileno(), *by_number], [], [])
        for number in ready:
            if number == sys.stdin.fileno():
                return
            listener = by_number[number]
            if listener.type == socket.SOCK_DGRAM:
                _, sender = listener.recvfrom(200)
                listener.sendto(canary.encode(), sender)
            else:
                with listener.accept()[0] as connection:
                    connection.send(canary.encode())


def main(canary: str, directory: str) -> None:
    neighbour, listeners = lay_out(canary, Path(directory))
    try:
        print(json.dumps(asdict(neighbour)), flush=True)
        answer(canary, listeners)
    finally:
        _LIBC.shmctl(_LIBC.shmget(neighbour.shared_memory_key, 0, 0), 0, None)
        _LIBC.mq_unlink(f"/{neighbour.queue}".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
