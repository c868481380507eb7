"""What an attempt leaves stays on disk until the server has it, and nothing else does."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.blob import INLINE_BYTES
from potluck.provider.files.outbox import Outbox, Role, remove_stray_outboxes
from tests.provider.build import a_lease

ATTEMPT = a_lease()[0].attempt_id


def test_what_was_synced_is_there_in_the_next_life(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    kept = outbox.add(Role.OUTPUT, "a/b", [b"one", b"two"])
    outbox.sync()
    outbox.add(Role.OUTPUT, "c", [b"not synced"])
    outbox.close()  # as kill -9 leaves it

    again = Outbox.open(tmp_path, ATTEMPT)
    assert (len(again), again.parcels, again.size_bytes) == (1, [kept], 6)
    assert again.read(kept, 0, 100) == b"onetwo"
    assert again.read(kept, 4, 1) == b"w"
    second = again.add(Role.OUTPUT, "d", [b"three"])
    assert (again.read(second, 0, 99), again.read(kept, 0, 99)) == (b"three", b"onetwo")
    again.discard()
    assert len(Outbox.open(tmp_path, ATTEMPT)) == 0


def test_a_torn_index_says_what_is_whole(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    first = outbox.add(Role.OUTPUT, "first", [b"1"])
    outbox.sync()
    outbox.add(Role.OUTPUT, "second", [b"2"])
    outbox.sync()
    outbox.close()
    index = tmp_path / "outbox" / ATTEMPT / "index"
    index.write_bytes(index.read_bytes()[:-3])
    assert Outbox.open(tmp_path, ATTEMPT).parcels == [first]


def test_nothing_is_made_for_an_attempt_that_leaves_nothing(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    assert outbox.keep_value(b"small").data == b"small"
    outbox.sync()
    outbox.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_large_value_is_a_parcel_of_its_own(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    value = outbox.keep_value(bytes(INLINE_BYTES + 1))
    assert value.blob == outbox.parcels[0].blob and outbox.parcels[0].role is Role.VALUE
    assert outbox.size_bytes == 0, "it is no file"
    outbox.discard()


async def test_whoever_sends_is_woken(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)
    waiting = asyncio.create_task(outbox.more_than(0))
    await asyncio.sleep(0)
    outbox.add(Role.OUTPUT, "a", [])
    outbox.announce()
    async with asyncio.timeout(5):
        await waiting
    outbox.discard()


def test_nothing_is_written_to_one_that_is_closed(tmp_path: Path) -> None:
    outbox = Outbox.open(tmp_path, ATTEMPT)

    def closing() -> Iterator[bytes]:
        """The attempt is called off while a thread still copies."""
        yield b"first"
        outbox.discard()
        with (tmp_path / "other").open("wb") as other:  # takes over the number
            yield b"second"
            assert other.tell() == 0

    with pytest.raises(OSError, match="closed"):
        outbox.add(Role.OUTPUT, "a", closing())
    assert (tmp_path / "other").read_bytes() == b""
    assert not (tmp_path / "outbox" / ATTEMPT).exists()


def test_strays_go(tmp_path: Path) -> None:
    for name in (ATTEMPT, "attempt_stray"):
        (tmp_path / "outbox" / name).mkdir(parents=True)
    remove_stray_outboxes(tmp_path, {ATTEMPT})
    assert [each.name for each in (tmp_path / "outbox").iterdir()] == [ATTEMPT]
