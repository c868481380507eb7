"""Where the platform lives: its directory, claimed for one `up` at a time, and its port."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_data_path

from potluck.model.error import BadSettings, DataDirectoryInUse, PortTaken


def data_directory(named: Path | None) -> Path:
    """The one that was named, else POTLUCK_DATA_DIR, else the usual place of this system."""
    from_variable = os.environ.get("POTLUCK_DATA_DIR")
    chosen = named or (Path(from_variable) if from_variable else user_data_path("potluck"))
    return chosen.expanduser().absolute()


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Holds the directory while inside. The lock goes with the process, however it ends."""
    try:
        (directory / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(directory / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadSettings(
            f"The data directory {directory} can not be used: {error.strerror}.",
            "Name another one with --data-dir DIR.",
        ) from error
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def check_port(host: str, port: int) -> None:
    """Says now, before anything is started, that the port is not to be had."""
    try:
        socket.create_server((host, port)).close()
    except PermissionError as error:
        raise BadSettings(
            f"You may not listen on port {port}.", "Choose one above 1023 with --port."
        ) from error
    except OSError as error:
        raise PortTaken(
            f"Port {port} is taken by another program.",
            f"Choose another with --port, such as --port {port + 1}; 0 takes any free one.",
        ) from error


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataDirectoryInUse(
            f"Another `potluck up` is running on {directory}.",
            "Use that one, or start this one elsewhere with --data-dir DIR and --port PORT.",
        ) from error
