"""Volumes on this node: built once from verified chunks, within a limit, for each owner its own."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from potluck.model.blob import BlobRef, VolumeMount
from potluck.model.error import NotFound, SandboxUnavailable
from potluck.provider.files.blob_transfer import BlobTransfer
from potluck.provider.files.volume_cache import VolumeCache
from potluck.provider.sandbox.driver import InputFailed
from potluck.provider.server.throttle import Throttle
from potluck.wire.volumes import VolumeChunk, VolumeFile, VolumeManifest, version_of
from tests.provider.builders import a_lease
from tests.provider.fake_server import FakeServer
from tests.provider.server.connected_client import linked

OWNER, OTHER = "0x" + "a" * 40, "0x" + "b" * 40


@asynccontextmanager
async def courier_to(server: FakeServer) -> AsyncIterator[BlobTransfer]:
    async with linked(server) as provider:
        yield BlobTransfer(provider.link, a_lease()[0], Throttle())


class Shelf:
    """Chunks in packs at the server, and volumes made of them."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._places: dict[bytes, tuple[BlobRef, int]] = {}

    def pack(self, *chunks: bytes) -> None:
        data, offset = b"".join(chunks), 0
        ref = BlobRef(self._server.files.keep(data), len(data))
        for chunk in chunks:
            self._places[chunk] = (ref, offset)
            offset += len(chunk)

    def volume(self, owner: str = OWNER, **files: Sequence[bytes]) -> VolumeMount:
        packs: dict[BlobRef, int] = {}
        entries = []
        for path, chunks in sorted(files.items()):
            placed = []
            for chunk in chunks:
                pack, offset = self._places[chunk]
                number = packs.setdefault(pack, len(packs))
                digest = hashlib.sha256(chunk).digest()
                placed.append(VolumeChunk(number, offset, len(chunk), digest))
            entries.append(VolumeFile(path.replace("__", "/"), path == "run", tuple(placed)))
        manifest = VolumeManifest(tuple(packs), tuple(entries))
        data = manifest.encode()
        ref = BlobRef(self._server.files.keep(data), len(data))
        version = version_of(entries)
        return VolumeMount("data", "/data", version, owner, ref, manifest.size_bytes)


@pytest.fixture
def shelf(server: FakeServer) -> Shelf:
    volume_shelf = Shelf(server)
    volume_shelf.pack(b"one " * 100, b"two " * 100, b"three " * 100)
    volume_shelf.pack(b"four " * 100)
    return volume_shelf


ONE, TWO, THREE, FOUR = (word * 100 for word in (b"one ", b"two ", b"three ", b"four "))


async def test_a_tree_is_built_once_from_few_requests(
    server: FakeServer, shelf: Shelf, tmp_path: Path
) -> None:
    volume = shelf.volume(a=[ONE, TWO], deep__b=[THREE], c=[], run=[FOUR, ONE])
    cache, changes = VolumeCache(tmp_path, 10**6), list[str]()
    cache.listen(lambda: changes.append("changed"))
    async with courier_to(server) as courier:
        first, second = await asyncio.gather(
            *(cache.hold(name, [volume], courier) for name in ("one", "two"))
        )
        third_hold = await VolumeCache(tmp_path, 10**6).hold("three", [volume], courier)
    tree = first.trees["/data"]
    assert tree == second.trees["/data"] == third_hold.trees["/data"]
    assert (tree / "a").read_bytes() == ONE + TWO
    assert (tree / "deep" / "b").read_bytes() == THREE
    assert (tree / "c").read_bytes() == b""
    assert (tree / "run").read_bytes() == FOUR + ONE
    assert [(tree / name).stat().st_mode & 0o777 for name in ("a", "run")] == [0o444, 0o555]
    # The manifest, a run of three chunks of two files, and one chunk; the repeated one is local.
    byte_range = f"bytes=0-{len(ONE + TWO + THREE) - 1}"
    assert server.files.asked == ["", byte_range, f"bytes=0-{len(FOUR) - 1}"]
    assert third_hold.fetched_bytes == 0 and changes == ["changed"]
    assert cache.versions(9) == (volume.held_key,)
    assert VolumeCache(tmp_path, 10**6).versions(9) == (volume.held_key,)


async def test_the_next_version_reuses_chunks_that_are_here(
    server: FakeServer, shelf: Shelf, tmp_path: Path
) -> None:
    before = shelf.volume(a=[ONE, TWO], b=[THREE])
    after = shelf.volume(a=[ONE, FOUR, TWO], moved=[THREE])
    cache = VolumeCache(tmp_path, 10**6)
    async with courier_to(server) as courier:
        first = await cache.hold("one", [before], courier)
        second = await cache.hold("two", [after], courier)
        assert after.manifest is not None
        assert second.fetched_bytes == after.manifest.size_bytes + len(FOUR)
        old, new = first.trees["/data"], second.trees["/data"]
        assert (new / "a").read_bytes() == ONE + FOUR + TWO
        assert (new / "moved").stat().st_ino == (old / "b").stat().st_ino, "it is the same file"
        # Somebody else's, with the same bytes, comes from the server: nothing shows what is here.
        foreign = await cache.hold("three", [shelf.volume(OTHER, a=[ONE, TWO])], courier)
    assert foreign.fetched_bytes >= len(ONE + TWO)
    assert len(set(cache.versions(9))) == 3


async def test_a_killed_fetch_resumes_with_its_intact_chunks(
    server: FakeServer, shelf: Shelf, tmp_path: Path
) -> None:
    volume = shelf.volume(a=[ONE, TWO], b=[THREE])
    assert volume.version is not None and volume.manifest is not None
    owner = hashlib.sha256(OWNER.encode()).hexdigest()[:16]
    tree = tmp_path / owner / f"{volume.version}.part" / "tree"
    tree.mkdir(parents=True)
    (tree / "a").write_bytes(ONE + TWO[:50] + bytes(len(TWO) - 50))  # a hole that a power cut left
    async with courier_to(server) as courier:
        cache = VolumeCache(tmp_path, 10**6)
        assert cache.versions(9) == (), "nothing is half visible"
        mounted = await cache.hold("one", [volume], courier)
    assert (mounted.trees["/data"] / "a").read_bytes() == ONE + TWO
    assert mounted.fetched_bytes == volume.manifest.size_bytes + len(TWO + THREE)
    assert not list(tmp_path.glob("*/*.part"))


async def test_a_broken_connection_costs_only_the_chunk_in_transfer(
    server: FakeServer, shelf: Shelf, tmp_path: Path
) -> None:
    volume = shelf.volume(a=[ONE, TWO, THREE])
    async with courier_to(server) as courier:
        cache = VolumeCache(tmp_path, 10**6)
        server.files.cuts = [10**6, 450]  # the manifest comes whole
        mounted = await cache.hold("one", [volume], courier)
    assert (mounted.trees["/data"] / "a").read_bytes() == ONE + TWO + THREE
    assert volume.manifest is not None
    assert mounted.fetched_bytes == volume.manifest.size_bytes + len(ONE + TWO + THREE)


async def test_damaged_chunks_are_refused(server: FakeServer, shelf: Shelf, tmp_path: Path) -> None:
    volume = shelf.volume(a=[ONE, TWO])
    assert volume.manifest is not None
    manifest = server.files.blobs.pop(volume.manifest.sha256)
    async with courier_to(server) as courier:
        with pytest.raises(NotFound):
            await VolumeCache(tmp_path, 10**6).hold("one", [volume], courier)
        server.files.blobs[volume.manifest.sha256] = manifest
        (pack,) = [key for key, data in server.files.blobs.items() if data.startswith(ONE)]
        server.files.blobs[pack] = b"?" + server.files.blobs[pack][1:]
        with pytest.raises(InputFailed, match="damaged three times"):
            await VolumeCache(tmp_path, 10**6).hold("one", [volume], courier)
    assert VolumeCache(tmp_path, 10**6).versions(9) == ()


async def test_the_least_recently_used_version_is_evicted_but_never_a_mounted_one(
    server: FakeServer, shelf: Shelf, tmp_path: Path
) -> None:
    first, second, third = (shelf.volume(a=[chunk]) for chunk in (ONE, TWO, THREE))
    cache = VolumeCache(tmp_path, len(ONE + TWO + THREE) - 1)
    assert cache.offered_bytes() == len(ONE + TWO + THREE) - 1
    async with courier_to(server) as courier:
        old = await cache.hold("one", [first], courier)
        await cache.hold("two", [second], courier)
        os.utime(old.trees["/data"].parent, (1, 1))
        with pytest.raises(SandboxUnavailable, match="no room"):
            await cache.hold("three", [third], courier)
        cache.share("one", "interpreter")
        cache.release("one")
        with pytest.raises(SandboxUnavailable, match="no room"):
            await cache.hold("three", [third], courier)
        cache.release("interpreter")
        await cache.hold("three", [third], courier)
    assert not old.trees["/data"].exists()
    assert set(cache.versions(9)) == {second.held_key, third.held_key}
    assert {path.name for path in tmp_path.glob("*/*")} == {second.version, third.version}
