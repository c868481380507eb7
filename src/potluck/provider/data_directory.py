"""The provider's data directory: one process at a time, and its node ids.

DATA/provider.toml   the owner's terms and limits (owner/file.py)
DATA/control         the socket of the running provider (control/socket_path.py)
DATA/wishes.json     the last remote request that was carried out, by node id
DATA/unwritten.json  remote changes that are not in provider.toml yet (owner/pending_writes.py)
DATA/power.json      the devices' power limits before the owner's (owner/power.py)
DATA/network.json    the bytes of tasks in this month (egress/monthly_bytes.py)
DATA/lock            locked (flock) while a provider runs here
DATA/node.json       the node id that each server gave this directory
DATA/attempts/       for each server: the journal, and logs and files of held attempts
DATA/receipts/       for each server: the receipts of this node (attempt/receipt_book.py)
DATA/files/          input files of tasks, separate for each account (files/cache.py)
"""

import hashlib
import re
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from potluck.local.data_directory import held
from potluck.local.durable_files import remove_drafts, write_atomically
from potluck.model.error import DataDirectoryInUse
from potluck.model.ids import NodeId, is_id


def lock_directory(directory: Path) -> AbstractContextManager[None]:
    """Creates the directory and locks it inside the context."""
    in_use = DataDirectoryInUse(
        f"Another provider runs in {directory}.",
        "Stop it first, or choose another directory with --data-dir.",
    )
    return held(directory, in_use)


def tidy(directory: Path) -> None:
    """Removes half-written files after a kill. The caller holds the directory."""
    for name in ("node", "wishes", "unwritten", "measured", "power", "network"):
        remove_drafts(directory / f"{name}.json")


def load_node_id(directory: Path, url: str) -> NodeId | None:
    """The id that this server gave this node, if any."""
    node_id = _load(directory).get(url, "")
    return NodeId(node_id) if is_id(node_id, "node") else None


def save_node_id(directory: Path, url: str, node_id: NodeId) -> None:
    node_ids = _load(directory)
    if node_ids.get(url) != node_id:
        write_atomically(directory / "node.json", msgspec.json.encode(node_ids | {url: node_id}))


def known_urls(directory: Path) -> list[str]:
    """The servers that this directory is registered with."""
    return sorted(_load(directory))


def forget_node_id(directory: Path, url: str) -> None:
    node_ids = _load(directory)
    if node_ids.pop(url, None) is not None:
        write_atomically(directory / "node.json", msgspec.json.encode(node_ids))


def attempts_directory(directory: Path, url: str) -> Path:
    """One for each server: their data stays separate."""
    return directory / "attempts" / _directory_name(url)


def receipts_directory(directory: Path, url: str) -> Path:
    """One for each server; it stays when the node leaves for good."""
    return directory / "receipts" / _directory_name(url)


def _directory_name(url: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", url)[:80]
    return f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"


def _load(directory: Path) -> dict[str, str]:
    path = directory / "node.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.DecodeError):
        # The server then assigns a new id.
        return {}
