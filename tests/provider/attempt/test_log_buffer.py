"""Logs on the provider's disk: pieces of a sensible size, in order, there after a crash."""

import errno
import os
from pathlib import Path

import pytest

from potluck.model.ids import AttemptId
from potluck.provider.attempt import log_buffer as attempt_log_module
from potluck.provider.attempt.log_buffer import PIECE_BYTES, LogBuffer, LogSpool, remove_strays
from potluck.store.new_ids import new_attempt_id
from potluck.wire.provider import PackedLogPiece

ATTEMPT = new_attempt_id()


def a_log(directory: Path, flush_seconds: float = 60.0) -> LogBuffer:
    return LogBuffer(LogSpool.open(directory, ATTEMPT), flush_seconds)


def pieces_of(spool: LogSpool) -> list[tuple[str, bytes]]:
    return [(piece.stream, piece.data) for piece in spool.read(0, 10_000, 2**30)]


async def test_bytes_that_arrive_together_become_one_piece(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    for stream, data in (("stdout", b"a"), ("stdout", b"b"), ("stderr", b"c"), ("stdout", b"d")):
        log.add(stream, data)
    assert log.pieces == 0
    log.flush()
    assert pieces_of(log.spool) == [("stdout", b"ab"), ("stderr", b"c"), ("stdout", b"d")]


async def test_pieces_appear_by_themselves_after_the_flush_time(tmp_path: Path) -> None:
    log = a_log(tmp_path, flush_seconds=0.01)
    await log.remark("Installing 3 dependencies …")
    await log.longer_than(0)
    assert pieces_of(log.spool) == [("potluck", "Installing 3 dependencies …\n".encode())]


async def test_no_piece_is_larger_than_the_wire_allows(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.add("stdout", b"x" * (3 * PIECE_BYTES + 5))
    assert [len(data) for _, data in pieces_of(log.spool)] == [*[PIECE_BYTES] * 3, 5]


async def test_a_long_log_of_alternating_streams_stays_within_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_log_module, "EXACT_ORDER_PIECES", 2)
    log = a_log(tmp_path)
    for _ in range(2):
        for stream in ("stdout", "stderr") * 50:
            log.add(stream, b".")
        log.flush()
    assert log.pieces == 100 + 2
    assert b"".join(data for _, data in pieces_of(log.spool)) == b"." * 200


async def test_a_full_disk_is_reported_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, pwrite, room = a_log(tmp_path), os.pwrite, [2]

    def full_after_two(descriptor: int, data: bytes, offset: int) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room[0] -= 1
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full_after_two)
    for stream in ("stdout", "stderr", "stdout"):
        log.add(stream, b"x")
    log.flush()
    with pytest.raises(OSError, match="No space left"):
        log.sync()
    with pytest.raises(OSError, match="No space left"):
        await log.longer_than(2)
    monkeypatch.undo()
    log.flush()
    assert pieces_of(log.spool) == [("stdout", b"x"), ("stderr", b"x")]


def test_a_partially_written_piece_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, pwrite = LogSpool.open(tmp_path, ATTEMPT), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda to, data, offset: pwrite(to, data[:3], offset))
    spool.append(PackedLogPiece("stdout", b"whole"))
    assert pieces_of(spool) == [("stdout", b"whole")]


def test_reading_goes_by_number_and_stays_within_limits(tmp_path: Path) -> None:
    spool = LogSpool.open(tmp_path, ATTEMPT)
    for number in range(10):
        spool.append(PackedLogPiece("stdout", b"%d" % number * 100))
    assert [piece.data[:1] for piece in spool.read(3, 2, 2**20)] == [b"3", b"4"]
    assert len(spool.read(0, 10, 400)) == 3
    assert len(spool.read(9, 10, 1)) == 1, "at least one, however large"


def test_a_spool_survives_its_process_and_loses_only_a_torn_piece(tmp_path: Path) -> None:
    spool = LogSpool.open(tmp_path, ATTEMPT)
    for data in (b"one", b"two", b"three"):
        spool.append(PackedLogPiece("stdout", data))
    spool.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-2])
    reopened_spool = LogSpool.open(tmp_path, ATTEMPT)
    reopened_spool.append(PackedLogPiece("stdout", b"four"))
    assert [data for _, data in pieces_of(reopened_spool)] == [b"one", b"two", b"four"]


def test_pieces_after_a_damaged_one_are_dropped(tmp_path: Path) -> None:
    spool = LogSpool.open(tmp_path, ATTEMPT)
    for data in (b"one", b"two", b"six"):
        spool.append(PackedLogPiece("stdout", data))
    spool.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(b"two", b"t?o"))
    reopened_spool = LogSpool.open(tmp_path, ATTEMPT)
    reopened_spool.append(PackedLogPiece("stdout", b"new"))
    reopened_spool.close()
    assert pieces_of(LogSpool.open(tmp_path, ATTEMPT)) == [("stdout", b"one"), ("stdout", b"new")]


def test_a_discarded_spool_is_removed_and_takes_no_more(tmp_path: Path) -> None:
    spool = LogSpool.open(tmp_path, ATTEMPT)
    spool.append(PackedLogPiece("stdout", b"one"))
    spool.discard()
    spool.append(PackedLogPiece("stdout", b"late"))
    spool.sync()
    assert list(tmp_path.iterdir()) == []


def test_logs_that_the_journal_does_not_know_are_removed(tmp_path: Path) -> None:
    kept_id, stray = new_attempt_id(), new_attempt_id()
    for attempt_id in (kept_id, stray):
        spool = LogSpool.open(tmp_path, attempt_id)
        assert list(tmp_path.glob(f"{attempt_id}*")) == [], "there is nothing to keep yet"
        spool.append(PackedLogPiece("stdout", b"one"))
        spool.close()
    remove_strays(tmp_path, {kept_id})
    assert [AttemptId(path.stem) for path in tmp_path.iterdir()] == [kept_id]
