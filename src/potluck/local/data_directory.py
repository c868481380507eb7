"""Data and configuration directories, and the lock that lets one process use a directory.

The operating system releases the lock when the process ends in any way.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from potluck.local.file_lock import try_lock
from potluck.model.error import BadSettings, DataDirectoryInUse


def data_directory(variables: Mapping[str, str] = os.environ) -> Path:
    """POTLUCK_DATA_DIR, else the system's default; each part has a folder in it."""
    named = variables.get("POTLUCK_DATA_DIR")
    if named:
        return resolve_directory(named)
    from platformdirs import user_data_path

    return user_data_path("potluck")


def config_directory(variables: Mapping[str, str] = os.environ) -> Path:
    """POTLUCK_CONFIG_DIR, else the system's default: for the profile and the wallet."""
    named = variables.get("POTLUCK_CONFIG_DIR")
    if named:
        return resolve_directory(named)
    from platformdirs import user_config_path

    return user_config_path("potluck")


def resolve_directory(name: str | Path) -> Path:
    """The absolute path. An empty name, as of an unset variable, does not mean `.`."""
    if name == "":
        raise BadSettings(
            "The data directory has an empty name.", "Choose one with --data-dir DIR."
        )
    return Path(name).expanduser().absolute()


@contextmanager
def held(directory: Path, in_use: DataDirectoryInUse, lock: str = "lock") -> Iterator[None]:
    """Creates the directory with mode 0700 and locks it; raises `in_use` if it is locked."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(directory, error) from error
    try:
        _take(directory, descriptor, in_use)
        yield
    finally:
        os.close(descriptor)


def _take(directory: Path, descriptor: int, in_use: DataDirectoryInUse) -> None:
    try:
        is_ours = try_lock(descriptor)
    except OSError as error:
        raise _unusable(directory, error) from error
    if not is_ours:
        raise in_use


def _unusable(directory: Path, error: OSError) -> BadSettings:
    return BadSettings(
        f"The data directory {directory} cannot be used: {error.strerror}.",
        "Choose another one with --data-dir, or correct its permissions.",
    )
