"""What an attempt leaves stays on disk until the server has it, and nothing else does."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from potluck.model.blob import INLINE_BYTES
from potluck.provider.files import outbox as outboxes
from potluck.provider.files.outbox import DiskFull, Outbox, OutputRole, remove_stray_outboxes
from tests.provider.builders import a_lease

ATTEMPT = a_lease()[0].attempt_id


def test_synced_entries_survive_a_restart(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    parcel = outbox.add(OutputRole.OUTPUT, "a/b", [b"one", b"two"])
    outbox.sync()
    outbox.add(OutputRole.OUTPUT, "c", [b"not synced"])
    outbox.close()  # as kill -9 leaves it

    reopened = Outbox.open(tmp_path, ATTEMPT)
    assert (len(reopened), reopened.parcels, reopened.size_bytes) == (1, [parcel], 6)
    assert reopened.read(parcel, 0, 100) == b"onetwo"
    assert reopened.read(parcel, 4, 1) == b"w"
    second = reopened.add(OutputRole.OUTPUT, "d", [b"three"])
    assert (reopened.read(second, 0, 99), reopened.read(parcel, 0, 99)) == (b"three", b"onetwo")
    reopened.discard()
    assert len(Outbox.open(tmp_path, ATTEMPT)) == 0


def test_a_torn_index_lists_only_complete_files(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    first = outbox.add(OutputRole.OUTPUT, "first", [b"1"])
    outbox.sync()
    outbox.add(OutputRole.OUTPUT, "second", [b"2"])
    outbox.sync()
    outbox.close()
    index = tmp_path / "outbox" / ATTEMPT / "index"
    index.write_bytes(index.read_bytes()[:-3])
    assert Outbox.open(tmp_path, ATTEMPT).parcels == [first]


def test_an_attempt_without_output_makes_no_outbox(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    assert outbox.keep_value(b"small").data == b"small"
    outbox.sync()
    outbox.discard()
    assert list(tmp_path.iterdir()) == []


def test_disk_space_of_uploaded_outputs_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "_GIVEN_BACK_BYTES", 100_000)
    outbox, content = Outbox.open(tmp_path, ATTEMPT), tmp_path / "outbox" / ATTEMPT / "content"
    outbox.add(OutputRole.OUTPUT, "first", [bytes(100_000)])
    assert not outbox.is_to_give_back(0)
    assert outbox.is_to_give_back(1)
    outbox.give_back(1)
    assert content.stat().st_size == 0
    second = outbox.add(OutputRole.OUTPUT, "second", [b"two"])
    outbox.sync()
    assert not outbox.is_to_give_back(2), "it is too little"
    assert content.stat().st_blocks * 512 < 50_000
    outbox.close()

    reopened = Outbox.open(tmp_path, ATTEMPT)
    assert (len(reopened), reopened.shipped, reopened.read(second, 0, 99)) == (2, 1, b"two")
    reopened.add(OutputRole.VALUE, "", [bytes(100_000)])
    assert not reopened.is_to_give_back(3), "it may be asked for again"
    reopened.discard()


def test_no_task_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    outbox.add(OutputRole.OUTPUT, "first", [b"1"])
    free = iter([2**30, 0, 2**30])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    with pytest.raises(DiskFull):
        outbox.add(OutputRole.OUTPUT, "large", [b"22", b"33"])
    assert (tmp_path / "outbox" / ATTEMPT / "content").stat().st_size == 1
    last = outbox.add(OutputRole.OUTPUT, "last", [b"4"])
    assert (outbox.read(last, 0, 9), len(outbox)) == (b"4", 2)
    outbox.discard()


def test_a_large_value_is_a_parcel_of_its_own(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    value = outbox.keep_value(bytes(INLINE_BYTES + 1))
    assert value.blob == outbox.parcels[0].blob and outbox.parcels[0].role is OutputRole.VALUE
    assert outbox.size_bytes == 0, "it is no file"
    outbox.discard()


async def test_a_sender_is_woken(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    waiting = asyncio.create_task(outbox.more_than(0))
    await asyncio.sleep(0)
    outbox.add(OutputRole.OUTPUT, "a", [])
    outbox.announce()
    async with asyncio.timeout(5):
        await waiting
    outbox.discard()


def test_a_closed_outbox_accepts_no_writes(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)

    def closing() -> Iterator[bytes]:
        """The attempt is called off while a thread still copies."""
        yield b"first"
        outbox.discard()
        with (tmp_path / "other").open("wb") as other:  # takes over the number
            yield b"second"
            assert other.tell() == 0

    with pytest.raises(OSError, match="closed"):
        outbox.add(OutputRole.OUTPUT, "a", closing())
    assert (tmp_path / "other").read_bytes() == b""
    assert not (tmp_path / "outbox" / ATTEMPT).exists()


def test_strays_go(tmp_path: Path) -> None:
    for name in (ATTEMPT, "attempt_stray"):
        (tmp_path / "outbox" / name).mkdir(parents=True)
    remove_stray_outboxes(tmp_path, {ATTEMPT})
    assert [path.name for path in (tmp_path / "outbox").iterdir()] == [ATTEMPT]
