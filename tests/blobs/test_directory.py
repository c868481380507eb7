"""Blobs in a directory: whole, durable, private, in order."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from potluck.blobs.directory import DirectoryBlobs
from potluck.model.error import NotFound, Unavailable
from tests.blobs import writer


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "blobs")


async def test_stored_blobs_survive_a_restart(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    await blobs.put("logs/attempt_1/00000000", b"\x00\xff")
    assert await DirectoryBlobs(tmp_path / "blobs").get("logs/attempt_1/00000000") == b"\x00\xff"


async def test_a_second_put_replaces_the_first(blobs: DirectoryBlobs) -> None:
    await blobs.put("logs/one", b"long before")
    await blobs.put("logs/one", b"after")
    assert await blobs.get("logs/one") == b"after"


async def test_missing_objects_are_not_found(blobs: DirectoryBlobs) -> None:
    for missing in (blobs.get("logs/one"), part_of(blobs, "logs/one", 0, 1)):
        with pytest.raises(NotFound):
            await missing


async def test_a_range_ends_where_the_blob_ends(blobs: DirectoryBlobs) -> None:
    await blobs.put("one", b"0123456789")
    assert await part_of(blobs, "one", 2, 3) == b"234"
    assert await part_of(blobs, "one", 8, 100) == b"89"
    assert await part_of(blobs, "one", 20, 1) == b""


async def test_a_list_is_ordered_and_keeps_to_whole_segments(blobs: DirectoryBlobs) -> None:
    for key in ("logs/a/2", "logs/a/1", "logs/ab/1", "logs/a/1x/3", "other"):
        await blobs.put(key, b"")
    assert await blobs.list("logs/a/") == ["logs/a/1", "logs/a/1x/3", "logs/a/2"]
    assert await blobs.list("logs/none/") == []
    assert await blobs.list("") == ["logs/a/1", "logs/a/1x/3", "logs/a/2", "logs/ab/1", "other"]


async def test_delete_leaves_the_others_and_no_empty_directory(
    blobs: DirectoryBlobs, tmp_path: Path
) -> None:
    for key in ("logs/a/1", "logs/a/2", "logs/b/1"):
        await blobs.put(key, b"")
    await blobs.delete(["logs/a/1", "logs/a/2", "logs/never/was"])
    assert await blobs.list("") == ["logs/b/1"]
    assert not (tmp_path / "blobs" / "logs" / "a").exists()


async def test_puts_and_deletes_do_not_trip_over_each_other(blobs: DirectoryBlobs) -> None:
    async def come_and_go(number: int) -> None:
        for _ in range(20):
            await blobs.put(f"logs/a/{number}", b"")
            await blobs.delete([f"logs/a/{number}"])

    await asyncio.gather(*(come_and_go(number) for number in range(8)))
    assert await blobs.list("") == []


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../up",
        "a/../b",
        "a//b",
        "a/",
        ".hidden",
        "a/.b",
        "A",
        "a b",
        "a\n",
        "a" * 200,
    ],
)
async def test_a_name_that_is_not_ours_is_refused(blobs: DirectoryBlobs, key: str) -> None:
    with pytest.raises(AssertionError, match="key"):
        await blobs.put(key, b"")


async def test_other_users_cannot_read_the_blobs(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    await blobs.put("logs/one", b"")
    for path in (tmp_path / "blobs").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077


async def test_bytes_and_name_are_on_the_disk_before_put_returns(
    blobs: DirectoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("sync directory" if is_directory else "sync file")

    def watched_rename(source: Any, target: Any) -> None:
        rename(source, target)
        calls.append("rename")

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_rename)
    await blobs.put("logs/one", b"x")
    # The first directory is the one in which `logs` was made.
    assert calls == ["sync file", "sync directory", "rename", "sync directory"]


async def test_a_storage_that_fails_says_so_and_leaves_nothing(
    blobs: DirectoryBlobs, tmp_path: Path
) -> None:
    await blobs.put("logs/one", b"a file, where the next one wants a directory")
    with pytest.raises(Unavailable, match="storage"):
        await blobs.put("logs/one/two", b"x")
    assert not [*(tmp_path / "blobs" / ".unfinished").iterdir()]


@pytest.mark.parametrize("moment", ["open", "write"])
async def test_a_cancelled_attempt_keeps_what_a_thread_uses(
    blobs: DirectoryBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    reached, may_go_on = threading.Event(), threading.Event()
    opened: list[int] = []
    really_open, really_write = os.open, os.write

    def pause(step: str) -> None:
        if step == moment:
            reached.set()
            may_go_on.wait(10)

    def watched_open(path: Any, flags: int, mode: int = 0o777) -> int:
        descriptor = really_open(path, flags, mode)
        if ".unfinished" in str(path):
            opened.append(descriptor)
            pause("open")
        return descriptor

    def slow_write(descriptor: int, data: bytes) -> int:
        if descriptor in opened:
            pause("write")
            return really_write(descriptor, data[:1])
        return really_write(descriptor, data)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"secret"

    monkeypatch.setattr(os, "open", watched_open)
    monkeypatch.setattr(os, "write", slow_write)
    putting = asyncio.create_task(blobs.put_stream("objects/one", pieces()))
    await asyncio.to_thread(reached.wait, 10)
    for _ in range(2):  # impatient
        putting.cancel()
        await asyncio.sleep(0)
    other = really_open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    assert other not in opened, "its number was given to somebody else"
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await putting
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(opened[0])
    assert os.pread(other, 100, 0) == b""
    os.close(other)
    assert not [*(tmp_path / "blobs" / ".unfinished").iterdir()]


async def test_a_killed_writer_leaves_no_half_blob(tmp_path: Path) -> None:
    for _ in range(3):
        with start_writer(tmp_path) as process:
            assert process.stdout and process.stdout.readline()
            process.kill()  # in the middle of the next put
        await assert_is_whole(tmp_path)


async def test_a_writer_that_dies_in_a_write_leaves_no_half_blob(tmp_path: Path) -> None:
    with start_writer(tmp_path, "1000000") as process:
        assert process.wait(60) == -signal.SIGXFSZ
    await assert_is_whole(tmp_path)


async def part_of(blobs: DirectoryBlobs, key: str, offset: int, length: int) -> bytes:
    return b"".join([piece async for piece in blobs.stream(key, offset, length)])


@contextmanager
def start_writer(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, writer.__file__, str(directory), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


async def assert_is_whole(directory: Path) -> None:
    blobs = DirectoryBlobs(directory)
    assert await blobs.list("") == ["results/one"]
    data = await blobs.get("results/one")
    assert len(data) == writer.SIZE_BYTES and data == data[:1] * writer.SIZE_BYTES
