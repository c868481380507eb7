"""Finished environments and cached locks on disk, separate for each account.

    DIRECTORY/staging/…                             unfinished; emptied at start
    DIRECTORY/accounts/ACCOUNT/LOCK/environment/    an environment, mounted read-only
    DIRECTORY/accounts/ACCOUNT/LOCK/complete.json   its size; touched at each use
    DIRECTORY/accounts/ACCOUNT/locks/REQUIREMENTS   a cached resolution

An environment appears by one rename, after its bytes are on disk, and disappears by one, so cached
environments are always complete. Account ids come over the network, so directories are named by
their hashes.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from potluck.provider.dependencies.directory_size import DirectorySize

_MARKER = "complete.json"


class EnvironmentCache:
    """Names and moves files; never runs or imports their content."""

    def __init__(self, directory: Path):
        self._accounts = directory / "accounts"
        self.staging = directory / "staging"

    def find(self, account_id: str, lock_hash: str) -> Path | None:
        """The environment, marked as used now; None if it is not cached."""
        directory = self._account(account_id) / lock_hash
        try:
            os.utime(directory / _MARKER)
        except FileNotFoundError:
            return None
        return directory / "environment"

    def place(self, staged: Path, account_id: str, lock_hash: str, size: DirectorySize) -> Path:
        """Moves a finished stage here atomically; its bytes must have been synced."""
        directory = self._account(account_id) / lock_hash
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (staged / _MARKER).write_bytes(msgspec.json.encode(size))
        staged.rename(directory)
        return directory / "environment"

    def recall(self, account_id: str, requirements: str, max_age_seconds: float) -> str | None:
        """The cached lock of these requirements, unless it is too old."""
        path = self._lock(account_id, requirements)
        try:
            age_seconds = time.time() - path.stat().st_mtime
            return path.read_text() if 0 <= age_seconds < max_age_seconds else None
        except FileNotFoundError:
            return None

    def remember(self, account_id: str, requirements: str, lock: str) -> None:
        path = self._lock(account_id, requirements)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.write_text(lock)
        unfinished.rename(path)

    def forget(self, account_id: str, requirements: str) -> None:
        self._lock(account_id, requirements).unlink(missing_ok=True)

    def evict(self, capacity_bytes: int, missing_bytes: int, in_use: set[Path]) -> Iterator[Path]:
        """Moves environments to staging, least recently used first, until the rest fits and
        `missing_bytes` are freed."""
        markers = sorted(
            self._accounts.glob(f"*/*/{_MARKER}"), key=lambda path: path.stat().st_mtime
        )
        sizes = {
            marker.parent: msgspec.json.decode(marker.read_bytes(), type=DirectorySize)
            for marker in markers
        }
        total_bytes = sum(size.bytes for size in sizes.values())
        excess_bytes = max(total_bytes - capacity_bytes, missing_bytes)
        for directory, size in sizes.items():
            if excess_bytes > 0 and directory / "environment" not in in_use:
                excess_bytes -= size.bytes
                yield self._withdraw(directory)

    def _withdraw(self, directory: Path) -> Path:
        self.staging.mkdir(parents=True, exist_ok=True, mode=0o700)
        withdrawn = self.staging / f"{directory.parent.name}-{directory.name}"
        directory.rename(withdrawn)
        return withdrawn

    def forget_before(self, moment: float) -> None:
        """Removes cached locks that are older than this."""
        for path in self._accounts.glob("*/locks/*"):
            if path.stat().st_mtime < moment:
                path.unlink(missing_ok=True)

    def _lock(self, account_id: str, requirements: str) -> Path:
        return self._account(account_id) / "locks" / digest(requirements)

    def _account(self, account_id: str) -> Path:
        return self._accounts / digest(account_id)[:32]


def digest(*texts: str) -> str:
    """A hash of these texts in this order; different lists are encoded differently."""
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()
