"""Finished environments and remembered locks on disk, for each account its own.

    DIRECTORY/staging/…                             unfinished; emptied at start
    DIRECTORY/accounts/ACCOUNT/LOCK/environment/    an environment, mounted read-only
    DIRECTORY/accounts/ACCOUNT/LOCK/complete.json   its size; touched at each use
    DIRECTORY/accounts/ACCOUNT/locks/REQUIREMENTS   a remembered resolution

An environment appears by one rename, after its bytes are on disk, and disappears by one: whatever
is on the shelf is whole. Account ids come over the network, so it is their hashes that name
directories.
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
    """Names and moves files; never runs or imports anything that is in them."""

    def __init__(self, directory: Path):
        self._accounts = directory / "accounts"
        self.staging = directory / "staging"

    def find(self, account_id: str, lock_hash: str) -> Path | None:
        """The environment, marked as used now, if it is there."""
        kept = self._account(account_id) / lock_hash
        try:
            os.utime(kept / _MARKER)
        except FileNotFoundError:
            return None
        return kept / "environment"

    def place(self, staged: Path, account_id: str, lock_hash: str, size: DirectorySize) -> Path:
        """Moves a finished stage here, at once. The bytes must have been synced before."""
        kept = self._account(account_id) / lock_hash
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (staged / _MARKER).write_bytes(msgspec.json.encode(size))
        staged.rename(kept)
        return kept / "environment"

    def recall(self, account_id: str, requirements: str, max_age_seconds: float) -> str | None:
        """The lock that these requirements gave before, unless that is too long ago."""
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

    def take_down(
        self, capacity_bytes: int, missing_bytes: int, in_use: set[Path]
    ) -> Iterator[Path]:
        """Moves environments off the shelf, least recently used first, until the rest fits and so
        many bytes are freed."""
        kept = sorted(self._accounts.glob(f"*/*/{_MARKER}"), key=lambda each: each.stat().st_mtime)
        sizes = {
            each.parent: msgspec.json.decode(each.read_bytes(), type=DirectorySize) for each in kept
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
        """Removes remembered locks that are older than this."""
        for path in self._accounts.glob("*/locks/*"):
            if path.stat().st_mtime < moment:
                path.unlink(missing_ok=True)

    def _lock(self, account_id: str, requirements: str) -> Path:
        return self._account(account_id) / "locks" / digest(requirements)

    def _account(self, account_id: str) -> Path:
        return self._accounts / digest(account_id)[:32]


def digest(*texts: str) -> str:
    """One hash for these texts in this order; different lists never give the same input."""
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()
