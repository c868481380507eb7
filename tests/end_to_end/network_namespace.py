"""A network of its own for one process, which the test can cut like a cable.

A namespace with one virtual link to this machine. Here a forwarder stands at the link's end and
hands on to Unix sockets: what it has opened stays open when the link is cut, as with a machine that
vanished. Needs root.
"""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


class Namespace:
    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"10.213.{number}.1"
        self._inside = f"10.213.{number}.2"
        self._link = f"pl{os.getpid() % 100_000}a{number}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """Put before a command, runs it inside."""
        return ("ip", "netns", "exec", self.name)

    def open(self) -> None:
        peer = f"{self._link}b"
        _ip("netns", "add", self.name)
        _ip("link", "add", self._link, "type", "veth", "peer", "name", peer, "netns", self.name)
        _ip("address", "add", f"{self.address}/24", "dev", self._link)
        _ip("link", "set", self._link, "up")
        _ip("-n", self.name, "address", "add", f"{self._inside}/24", "dev", peer)
        _ip("-n", self.name, "link", "set", peer, "up")
        _ip("-n", self.name, "link", "set", "lo", "up")

    def cut(self) -> None:
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        _ip("link", "set", self._link, "up")

    def close(self) -> None:
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._link)
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "delete", self.name)


@contextmanager
def namespace(number: int) -> Iterator[Namespace]:
    network_namespace = Namespace(f"potluck-test-{os.getpid()}-{number}", number)
    try:
        network_namespace.open()
        yield network_namespace
    finally:
        network_namespace.close()


def why_not() -> str | None:
    """Why there can be no namespace here."""
    if os.geteuid() != 0:
        return "a network namespace needs root"
    if shutil.which("ip") is None:
        return "a network namespace needs the command ip"
    process = subprocess.run(["ip", "netns", "list"], capture_output=True, check=False)
    return None if process.returncode == 0 else "network namespaces are not to be had here"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def forwarder(address: str, path: str) -> Iterator[int]:
    """The port at which whoever connects is handed on to a Unix socket."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((address, 0)))
        ends: list[socket.socket] = []
        stack.callback(_hang_up_all, ends)
        threading.Thread(target=_accept, args=(listener, path, ends), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, path: str, ends: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            client_end, _ = listener.accept()
            server_end = socket.socket(socket.AF_UNIX)
            server_end.connect(path)
            ends += [client_end, server_end]
            for source, other in ((client_end, server_end), (server_end, client_end)):
                threading.Thread(target=_pump, args=(source, other), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    _hang_up(source)
    _hang_up(target)


def _hang_up_all(ends: list[socket.socket]) -> None:
    for end in ends:
        _hang_up(end)


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
