"""The provider's data directory: one process at a time, and the node ids it was given.

DATA/lock          held (flock) while a provider runs here
DATA/node.json     the node id that each server gave this directory
DATA/attempts/     the journal and the logs of what is held
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from potluck.model.error import BadSettings, DataDirectoryInUse
from potluck.model.ids import NodeId, is_id


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Makes the directory, readable by its owner only, and holds it. The lock dies with us."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BadSettings(
            f"The data directory {directory} can not be used: {error.strerror}.",
            "Name another one with --data-dir, or mend its permissions.",
        ) from error
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataDirectoryInUse(
            f"Another provider runs in {directory}.",
            "Stop it first, or give this one a directory of its own with --data-dir.",
        ) from error


def load_node_id(directory: Path, url: str) -> NodeId | None:
    """The id that this server gave us before; none if it never did, or the file is not ours."""
    node_id = _load(directory).get(url, "")
    return NodeId(node_id) if is_id(node_id, "node") else None


def save_node_id(directory: Path, url: str, node_id: NodeId) -> None:
    known = _load(directory)
    if known.get(url) == node_id:
        return
    fresh = directory / "node.json.new"
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(known | {url: node_id}))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(directory / "node.json")


def attempts_directory(directory: Path, url: str) -> Path:
    """One for each server: what one of them entrusted to us is nothing for another."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url)[:80]
    return directory / "attempts" / f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def _load(directory: Path) -> dict[str, str]:
    path = directory / "node.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.DecodeError):
        # Without it the server gives a new id; nothing of value is lost.
        return {}
