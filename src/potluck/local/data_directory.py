"""Data and configuration directories, and the lock that lets one process use a directory.

The operating system releases the lock when the process ends in any way.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from potluck.local.file_lock import try_lock
from potluck.model.error import BadSettings, DataDirectoryInUse


def data_directory(variables: Mapping[str, str] = os.environ) -> Path:
    """POTLUCK_DATA_DIR, else the system's default; each part has a folder in it."""
    named = variables.get("POTLUCK_DATA_DIR")
    if named:
        return resolve_directory(named)
    from platformdirs import user_data_path

    return user_data_path("potluck")


# Files by which the data of a part are recognised.
_MARKS = {
    "server": ("encryption-key", "postgres/cluster", "blobs/objects", "blobs/logs"),
    "provider": ("node-key", "node.json", "provider.toml"),
}


def part_directory(
    part: Literal["server", "provider"],
    name: str | Path | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Path:
    """The folder of a part in the named data directory, or in the default one.

    Earlier versions kept the data of `potluck server --data-dir` and `potluck provide --data-dir`
    in the named directory itself: where such data are, they are used.
    """
    if name is None:
        return data_directory(variables) / part
    directory = resolve_directory(name)
    is_earlier = any((directory / mark).exists() for mark in _MARKS[part])
    return directory if is_earlier and not (directory / part).is_dir() else directory / part


def data_dir_of(directory: Path) -> Path:
    """The `--data-dir` that leads to the folder of a part."""
    return directory.parent if directory.name in _MARKS else directory


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
