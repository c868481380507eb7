"""The platform's directory, locked by one `up` at a time, and its port."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.local.data_directory import data_directory, held, resolve_directory
from potluck.model.error import BadSettings, DataDirectoryInUse, PortTaken


@contextmanager
def lock_directory(name: str | None) -> Iterator[Path]:
    """Locks the named directory, or the default one, and yields it."""
    directory = data_directory() if name is None else resolve_directory(name)
    in_use = DataDirectoryInUse(
        f"Another `potluck up` is running on {directory}.",
        "Use that one, or give this one another --data-dir DIR and --port PORT.",
    )
    with held(directory, in_use, "up.lock"):
        (directory / "logs").mkdir(exist_ok=True, mode=0o700)
        yield directory


def check_port(host: str, port: int) -> None:
    """Raises if the port is not available, before anything is started."""
    try:
        socket.create_server((host, port)).close()
    except PermissionError as error:
        raise BadSettings(
            f"You may not listen on port {port}.", "Choose one above 1023 with --port."
        ) from error
    except OSError as error:
        raise PortTaken(
            f"Port {port} is in use by another program.",
            f"Choose another with --port, such as --port {port + 1}; 0 takes any free one.",
        ) from error
