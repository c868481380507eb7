"""The socket on which the running provider takes its owner's commands.

DATA/control        a Unix socket that only its owner can open
DATA/control.json   without Unix sockets (Windows, some file systems), or if the path is too long:
                    a port on loopback, and a token that only its owner can read

Access to them gives full control of the provider.
"""

import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from potluck.local.durable_files import write_atomically

# The shortest limit of all systems, without the final NUL.
_LONGEST_PATH = 103
LOOPBACK = "127.0.0.1"


class Port(Struct, frozen=True):
    port: int
    token: str


def socket_path(data_directory: Path) -> Path:
    return data_directory / "control"


def port_path(data_directory: Path) -> Path:
    return data_directory / "control.json"


def has_sockets(data_directory: Path) -> bool:
    """Linux can use a long path, too: through /proc/self/fd."""
    if sys.platform == "win32":
        return False
    is_short = len(os.fsencode(socket_path(data_directory))) <= _LONGEST_PATH
    return is_short or sys.platform == "linux"


@contextmanager
def short_path(data_directory: Path) -> Iterator[str]:
    """A path of the socket that is short enough, valid inside the context."""
    path = socket_path(data_directory)
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    descriptor = os.open(data_directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)


def bind(data_directory: Path) -> tuple[socket.socket, str]:
    """A bound socket, and the token that clients must send first; "" if none is needed.

    The caller holds the directory, so an existing socket is a leftover.
    """
    unbind(data_directory)
    if has_sockets(data_directory):
        with suppress(OSError):  # some file systems have no sockets
            return _bind_unix(data_directory), ""
    bound = socket.create_server((LOOPBACK, 0))
    port = Port(bound.getsockname()[1], secrets.token_urlsafe(32))
    write_atomically(port_path(data_directory), msgspec.json.encode(port))
    return bound, port.token


def _bind_unix(data_directory: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    umask = os.umask(0o177)  # private from the start
    try:
        with short_path(data_directory) as path:
            bound.bind(path)
        bound.listen()
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(umask)
    return bound


def unbind(data_directory: Path) -> None:
    socket_path(data_directory).unlink(missing_ok=True)
    port_path(data_directory).unlink(missing_ok=True)


def connect(data_directory: Path, patience_seconds: float) -> tuple[socket.socket, str]:
    """A connection, and the token to send first. Raises OSError if no provider listens."""
    if not port_path(data_directory).exists():
        return _connect_unix(data_directory, patience_seconds), ""
    try:
        port = msgspec.json.decode(port_path(data_directory).read_bytes(), type=Port)
    except msgspec.DecodeError as error:
        raise ConnectionRefusedError(str(error)) from error
    return socket.create_connection((LOOPBACK, port.port), patience_seconds), port.token


def _connect_unix(data_directory: Path, patience_seconds: float) -> socket.socket:
    if sys.platform == "win32":
        raise ConnectionRefusedError
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(patience_seconds)
        with short_path(data_directory) as path:
            connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection
