"""Where the platform lives: its directory, claimed for one `up` at a time, and its port."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potluck.local.data_directory import data_directory, held, named_directory
from potluck.model.error import BadSettings, DataDirectoryInUse, PortTaken


@contextmanager
def claimed(named: str | None) -> Iterator[Path]:
    """The directory that was named, or the usual one; held while inside."""
    directory = data_directory() if named is None else named_directory(named)
    in_use = DataDirectoryInUse(
        f"Another `potluck up` is running on {directory}.",
        "Use that one, or start this one elsewhere with --data-dir DIR and --port PORT.",
    )
    with held(directory, in_use, "up.lock"):
        (directory / "logs").mkdir(exist_ok=True, mode=0o700)
        yield directory


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
