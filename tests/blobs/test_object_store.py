"""Blobs in object stores: the same promises as in a directory, and addresses that are signed."""

import asyncio
import hashlib
import os
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from potluck.blobs.object_store import ObjectStoreBlobs
from potluck.model.error import BadSettings, NotFound, Unavailable
from tests.blobs.s3_server import ACCESS_KEY, BUCKET, S3Server

LARGE = os.urandom(9 * 2**20)


@pytest.fixture
async def s3(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[S3Server]:
    server = S3Server()
    async with TestServer(server.app()) as running:
        monkeypatch.setenv("AWS_ENDPOINT", str(running.make_url("")).rstrip("/"))
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_REGION", "nowhere")
        yield server


@pytest.fixture(params=["memory", "file", "s3"])
async def blobs(
    request: pytest.FixtureRequest, tmp_path: Path, s3: S3Server
) -> AsyncIterator[ObjectStoreBlobs]:
    (tmp_path / "shared").mkdir()
    url = {
        "memory": "memory:///",
        "file": f"file://{tmp_path}/shared",
        "s3": f"s3://{BUCKET}/folder",
    }[request.param]
    store = ObjectStoreBlobs(url, tmp_path / "spool")
    await store.check()
    yield store
    store.close()


async def in_pieces(data: bytes, ends: bool = True) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]
    if not ends:
        raise ConnectionError("it hung up")


async def part_of(blobs: ObjectStoreBlobs, key: str, offset: int, length: int) -> bytes:
    return b"".join([piece async for piece in blobs.stream(key, offset, length)])


async def test_stored_blobs_can_be_read(blobs: ObjectStoreBlobs) -> None:
    await blobs.put("logs/one", b"before")
    await blobs.put("logs/one", b"0123456789")
    assert await blobs.get("logs/one") == b"0123456789"
    assert await part_of(blobs, "logs/one", 2, 3) == b"234"
    assert await part_of(blobs, "logs/one", 8, 100) == b"89"
    assert await part_of(blobs, "logs/one", 8, 0) == b""


async def test_missing_objects_are_not_found(blobs: ObjectStoreBlobs) -> None:
    for missing in (
        blobs.get("logs/one"),
        part_of(blobs, "logs/one", 0, 1),
        blobs.assemble(["logs/one"], "objects/a"),
    ):
        with pytest.raises(NotFound):
            await missing
    assert await blobs.list("") == []
    await blobs.delete(["logs/one"])


async def test_a_list_is_ordered_and_keeps_to_whole_segments(blobs: ObjectStoreBlobs) -> None:
    for key in ("logs/a/2", "logs/a/1", "logs/ab/1", "other"):
        await blobs.put(key, b"")
    assert await blobs.list("logs/a/") == ["logs/a/1", "logs/a/2"]
    assert await blobs.list("logs/none/") == []
    await blobs.delete(["logs/a/1", "logs/never/was"])
    assert await blobs.list("") == ["logs/a/2", "logs/ab/1", "other"]


@pytest.mark.parametrize("size_bytes", [0, 1, len(LARGE)])
async def test_parts_are_put_together_and_hashed(blobs: ObjectStoreBlobs, size_bytes: int) -> None:
    data, keys = LARGE[:size_bytes], []
    for number, start in enumerate(range(0, len(data), 4_000_000)):
        keys.append(f"uploads/u/{number}")
        await blobs.put_stream(keys[-1], in_pieces(data[start : start + 4_000_000]))
    assembled = await blobs.assemble(keys, "objects/a/b")
    assert (assembled.sha256, assembled.size_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert await part_of(blobs, "objects/a/b", 0, len(data)) == data
    assert await blobs.get("objects/a/b") == data


async def test_an_incomplete_stream_is_not_stored(blobs: ObjectStoreBlobs, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        await blobs.put_stream("uploads/u/0", in_pieces(LARGE, ends=False))
    assert await blobs.list("") == []
    assert not [*(tmp_path / "spool").iterdir()]


async def test_a_part_that_is_missing_leaves_no_object(blobs: ObjectStoreBlobs) -> None:
    await blobs.put("uploads/u/0", LARGE)
    with pytest.raises(NotFound):
        await blobs.assemble(["uploads/u/0", "uploads/u/1"], "objects/a/b")
    assert await blobs.list("objects/") == []


async def test_a_signed_address_can_be_read_by_anybody(s3: S3Server, tmp_path: Path) -> None:
    store = ObjectStoreBlobs(f"s3://{BUCKET}", tmp_path / "spool")
    await store.put("objects/a", b"weights")
    address = await store.sign("objects/a", 60)
    assert address is not None and "X-Amz-Expires=60" in address
    read = await asyncio.to_thread(lambda: urllib.request.urlopen(address).read())
    assert read == b"weights"
    store.close()


async def test_only_a_store_that_can_signs(tmp_path: Path) -> None:
    store = ObjectStoreBlobs("memory:///", tmp_path / "spool")
    assert await store.sign("objects/a", 60) is None
    store.close()


async def test_a_store_that_fails_says_so(s3: S3Server, tmp_path: Path) -> None:
    store = ObjectStoreBlobs(f"s3://{BUCKET}", tmp_path / "spool")
    await store.check()
    s3.is_broken = True
    with pytest.raises(Unavailable, match="object store"):
        await store.put("objects/a", b"")
    with pytest.raises(Unavailable):  # a starting server waits for it
        await store.check()
    store.close()


@pytest.mark.parametrize("url", ["ftp://somewhere", "nonsense", "s3://"])
async def test_an_invalid_address_is_reported_at_the_start(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="POTLUCK_BLOBS_URL"):
        ObjectStoreBlobs(url, tmp_path / "spool")


async def test_an_object_store_that_refuses_access_is_reported_at_the_start(
    s3: S3Server, tmp_path: Path
) -> None:
    store = ObjectStoreBlobs("s3://another-bucket", tmp_path / "spool")
    with pytest.raises(BadSettings, match="refuses the server's credentials"):
        await store.check()
    store.close()
