"""The provider's data directory: one process at a time, and the node ids it was given.

DATA/provider.toml what the owner allows and asks (owner/file.py)
DATA/control       where the owner's commands find the running provider (provider/control/socket_path.py)
DATA/wishes.json   how far the owner's wishes from elsewhere were carried out, by node id
DATA/unwritten.json  those of them that provider.toml does not say yet (provider/owner/pending_writes.py)
DATA/power.json    the power limits that devices had before the owner's (owner/power.py)
DATA/lock          held (flock) while a provider runs here
DATA/node.json     the node id that each server gave this directory
DATA/attempts/     for each server: the journal, and the logs and files of what is held
DATA/files/        files that tasks have named, for each account its own (files/cache.py)
"""

import hashlib
import re
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from potluck.local.data_directory import held
from potluck.local.durable_files import remove_drafts, write_whole
from potluck.model.error import DataDirectoryInUse
from potluck.model.ids import NodeId, is_id


def hold(directory: Path) -> AbstractContextManager[None]:
    """Makes the directory and holds it as long as the context lasts."""
    in_use = DataDirectoryInUse(
        f"Another provider runs in {directory}.",
        "Stop it first, or give this one a directory of its own with --data-dir.",
    )
    return held(directory, in_use)


def tidy(directory: Path) -> None:
    """Removes what a kill left of writing the files that only a provider writes.

    The caller holds the directory.
    """
    for name in ("node", "wishes", "unwritten", "measured", "power"):
        remove_drafts(directory / f"{name}.json")


def load_node_id(directory: Path, url: str) -> NodeId | None:
    """The id that this server gave us before; none if it never did, or the file is not ours."""
    node_id = _load(directory).get(url, "")
    return NodeId(node_id) if is_id(node_id, "node") else None


def save_node_id(directory: Path, url: str, node_id: NodeId) -> None:
    known = _load(directory)
    if known.get(url) == node_id:
        return
    write_whole(directory / "node.json", msgspec.json.encode(known | {url: node_id}))


def known_urls(directory: Path) -> list[str]:
    """The servers in whose pools this directory is."""
    return sorted(_load(directory))


def forget_node_id(directory: Path, url: str) -> None:
    known = _load(directory)
    if known.pop(url, None) is not None:
        write_whole(directory / "node.json", msgspec.json.encode(known))


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
