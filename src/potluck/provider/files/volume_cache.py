"""Keeps volumes on this node, each version as a read-only tree that is mounted into tasks.

A tree is built in a directory of its own, chunk by chunk, and each chunk is verified; only then it
gets its name. Chunks and files that another version of the same owner has are taken from there.
After kill -9 a fetch resumes: what is there is verified again. Owners share nothing, so that no
account can notice another's data. Trees in use stay; of the others, the least recently used are
deleted first.
"""

import asyncio
import ctypes
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from potluck.local.durable_files import sync
from potluck.model.blob import VolumeMount
from potluck.model.error import SandboxUnavailable
from potluck.provider.files.blob_transfer import BlobDamaged, BlobTransfer, fetch
from potluck.provider.files.volume_tree import LocalChunks, VolumeTree
from potluck.provider.sandbox.driver import InputFailed
from potluck.wire.volumes import VolumeManifest, decode_manifest

_PART = ".part"
_GONE = ".gone"
_MANIFEST, _TREE = "manifest", "tree"
# Versions that are looked through for chunks of a new one.
_MOST_BASES = 4
# More files are flushed together, with all that others write meanwhile.
_MOST_SYNCED = 500
_RESERVE_BYTES = 5 * 2**30
_RESERVE_SHARE = 10


class MountedVolumes(Struct, frozen=True):
    """The trees of a task's volumes, by their paths in the task."""

    trees: dict[str, Path] = {}
    fetched_bytes: int = 0


class VolumeCache:
    """One for each data directory. Holders, identified by name, must release their volumes."""

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        self._held: dict[str, frozenset[Path]] = {}  # immutable sets, since threads read them
        self._locks: dict[Path, asyncio.Lock] = {}
        self._coming: dict[Path, int] = {}  # bytes reserved for running fetches
        self._removing = threading.Lock()  # prevents using a tree that is about to be removed
        self._on_change: Callable[[], None] = _ignore
        self._known: dict[Path, tuple[str, int]] = {}  # of complete trees: key and size
        for path in directory.glob(f"*/*{_GONE}"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self._entries():
            if path.suffix != _PART:
                self._learn(path)

    def listen(self, on_change: Callable[[], None]) -> None:
        """Calls this whenever `versions` has changed."""
        self._on_change = on_change

    def versions(self, most: int) -> tuple[str, ...]:
        """The keys of complete trees, as the scheduler knows them; the last used first."""
        known = sorted(self._known, key=_used_at, reverse=True)
        return tuple(self._known[path][0] for path in known[:most])

    def offered_bytes(self) -> int:
        """What volumes may take: the owner's limit, or less if the disk is nearly full."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        used_bytes = sum(size_bytes for _, size_bytes in self._known.values())
        return min(self._most_bytes, used_bytes + self._free_bytes())

    async def hold(
        self, name: str, mounts: Sequence[VolumeMount], courier: BlobTransfer
    ) -> MountedVolumes:
        """Fetches what is missing and holds all until `release`. Raises the server's refusals,
        InputFailed and SandboxUnavailable."""
        paths = {mount.path: self._path(mount) for mount in mounts}
        self._held[name] = self._held.get(name, frozenset()).union(paths.values())
        fetched = [await self._bring(self._path(mount), mount, courier) for mount in mounts]
        return MountedVolumes({at: path / _TREE for at, path in paths.items()}, sum(fetched))

    def share(self, name: str, other: str) -> None:
        """Lets `other` hold what `name` holds, until `release(other)`."""
        self._held[other] = self._held.get(other, frozenset()).union(self._held.get(name, ()))

    def release(self, name: str) -> None:
        self._held.pop(name, None)

    async def _bring(self, path: Path, mount: VolumeMount, courier: BlobTransfer) -> int:
        """Returns the number of fetched bytes."""
        async with self._turn(path):
            if path in self._known:
                await asyncio.to_thread(os.utime, path)
                return 0
            self._coming[path] = mount.size_bytes
            try:
                await asyncio.to_thread(self._make_room, mount.size_bytes)
                return await self._build(path, mount, courier)
            except BlobDamaged:
                raise InputFailed(
                    f"the volume {mount.short_name} arrived damaged three times"
                ) from None
            finally:
                del self._coming[path]

    @asynccontextmanager
    async def _turn(self, path: Path) -> AsyncIterator[None]:
        """Serializes concurrent requests for a volume, so that it is fetched once."""
        async with self._locks.setdefault(path, asyncio.Lock()):
            yield

    async def _build(self, path: Path, mount: VolumeMount, courier: BlobTransfer) -> int:
        part = path.with_name(f"{path.name}{_PART}")
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        assert mount.manifest is not None, "the server names the manifest"
        encoded = part / _MANIFEST
        fetched = await fetch(courier, mount.manifest, encoded)
        manifest = await asyncio.to_thread(lambda: decode_manifest(encoded.read_bytes()))
        chunks = await asyncio.to_thread(self._local_chunks, path.parent)
        tree = VolumeTree(part / _TREE, manifest, chunks)
        fetched += await tree.build(courier)
        await asyncio.to_thread(self._seal, part, path, mount.held_key, manifest)
        self._on_change()
        return fetched

    def _local_chunks(self, owner: Path) -> LocalChunks:
        """Chunks of the versions of the same owner that were used last."""
        bases = sorted(
            (path for path in list(self._known) if path.parent == owner), key=_used_at, reverse=True
        )
        chunks = LocalChunks()
        for base in bases[:_MOST_BASES]:
            with suppress(OSError):
                chunks.add(base / _TREE, decode_manifest((base / _MANIFEST).read_bytes()))
        return chunks

    def _seal(self, part: Path, path: Path, key: str, manifest: VolumeManifest) -> None:
        """Makes the tree durable before it gets its name: it is not verified again."""
        (part / "key").write_text(key)
        (part / "size").write_text(str(manifest.size_bytes))
        _sync_all(part)
        part.replace(path)
        sync(path.parent)
        self._known[path] = (key, manifest.size_bytes)

    def _learn(self, path: Path) -> None:
        try:
            self._known[path] = (path / "key").read_text(), int((path / "size").read_text())
        except (OSError, ValueError):
            shutil.rmtree(path, ignore_errors=True)

    def _make_room(self, size_bytes: int) -> None:
        """Deletes the least recently used trees until all running fetches fit."""
        # What is being fetched changes meanwhile, and counts with its whole size.
        idle = [path for path in self._entries() if _final(path) not in self._coming]
        sizes = {path: self._size(path) for path in idle}
        needed_bytes = sum(list(self._coming.values())) + sum(sizes.values())
        for path in sorted(sizes, key=_used_at):
            if needed_bytes <= self._most_bytes and not self._lacks(size_bytes):
                break
            if self._remove(path):
                needed_bytes -= sizes[path]
        if needed_bytes > self._most_bytes or self._lacks(size_bytes):
            raise SandboxUnavailable(
                f"This node has no room for a volume of {size_bytes} bytes that the task mounts."
            )

    def _lacks(self, size_bytes: int) -> bool:
        return size_bytes > self._free_bytes()

    def _free_bytes(self) -> int:
        """Half of the free disk: the other half is for the work of tasks."""
        disk = shutil.disk_usage(self._directory)
        reserve_bytes = min(disk.total // _RESERVE_SHARE, _RESERVE_BYTES)
        return max(0, disk.free - reserve_bytes) // 2

    def _remove(self, path: Path) -> bool:
        """Removes the tree unless it is held; requests hold a tree before they look for it."""
        with self._removing:
            if any(_final(path) in held for held in list(self._held.values())):
                return False
            gone = path.with_name(f"{path.name}{_GONE}")
            with suppress(FileNotFoundError):
                path.rename(gone)
            was_known = self._known.pop(path, None) is not None
        shutil.rmtree(gone, ignore_errors=True)
        if was_known:
            self._on_change()
        return True

    def _size(self, path: Path) -> int:
        if path in self._known:
            return self._known[path][1]
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

    def _entries(self) -> list[Path]:
        found = [path for path in self._directory.glob("*/*") if path.suffix != _GONE]
        return [path for path in found if path.is_dir()]

    def _path(self, mount: VolumeMount) -> Path:
        assert mount.owner is not None and mount.version is not None, "the server sets both"
        owner = hashlib.sha256(mount.owner.encode()).hexdigest()[:16]
        return self._directory / owner / mount.version


def _ignore() -> None:
    pass


def _final(path: Path) -> Path:
    """The path of the complete tree, also for a partial one."""
    return path.with_suffix("") if path.suffix == _PART else path


def _used_at(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _sync_all(directory: Path) -> None:
    """Flushes all files, or the whole file system: far faster than each of many files."""
    paths = list(islice(directory.rglob("*"), _MOST_SYNCED + 1))
    if len(paths) <= _MOST_SYNCED:
        for path in (*paths, directory):
            sync(path)
        return
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", str(directory))
    finally:
        os.close(descriptor)
