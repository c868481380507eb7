"""Blobs named by their content."""

import hashlib
from pathlib import Path

import pytest

from potluck.blobs.content import get_content, put_content
from potluck.blobs.directory import DirectoryBlobs
from potluck.model.error import Internal


async def test_the_name_is_the_hash(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    key = await put_content(blobs, b"weights")
    assert key.endswith(hashlib.sha256(b"weights").hexdigest())
    assert await get_content(blobs, key) == b"weights"


async def test_the_same_bytes_are_kept_once(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    assert await put_content(blobs, b"weights") == await put_content(blobs, b"weights")
    assert len(await blobs.list("")) == 1


async def test_a_damaged_blob_is_not_handed_out(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    key = await put_content(blobs, b"weights")
    (tmp_path / key).write_bytes(b"weightz")
    with pytest.raises(Internal, match="damaged"):
        await get_content(blobs, key)
