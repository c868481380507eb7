"""The log of a task stays within its limit: overwritten lines and the middle are dropped."""

import asyncio
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.attempt.log_limit import LimitedLog, OverwrittenLines
from tests.provider.builders import a_lease


def collapsed(*pieces: bytes) -> bytes:
    """The pieces, written at once, after a state that was shown."""
    lines = OverwrittenLines()
    lines.feed(b"\r0%", 0.0)
    lines.feed(b"\n", 0.0)
    return b"".join(lines.feed(piece, 0.0) for piece in pieces) + lines.flush()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b"a\rb\rc\n", b"c\n"),
        (b"one\r\ntwo\r\n", b"one\r\ntwo\r\n"),
        (b"10%\r20%\r\nnext", b"20%\r\nnext"),
        (b"plain\nlines\n", b"plain\nlines\n"),
        (b"no end", b"no end"),
        (b"\r50%\r100%", b"\r100%"),
        (b"binary\0\ra\rb\n", b"binary\0\ra\rb\n"),
        (b"\n\n\r\n", b"\n\n\r\n"),
    ],
)
def test_an_overwritten_line_keeps_its_last_state(written: bytes, expected: bytes) -> None:
    assert collapsed(written) == expected


BAR = b"start\r\n" + b"".join(b"\r%3d%%" % share for share in range(101)) + b"\ndone\r\nend\r"


@given(st.lists(st.integers(0, len(BAR)), max_size=8))
def test_the_last_state_is_kept_however_the_output_is_split(cuts: list[int]) -> None:
    pieces = [BAR[start:end] for start, end in pairwise(sorted({0, len(BAR), *cuts}))]
    output = collapsed(*pieces)
    assert output.startswith(b"start\r\n") and output.endswith(b"100%\ndone\r\nend\r")
    assert len(output) < 100


def test_hours_of_a_progress_bar_are_a_small_log_that_shows_its_progress() -> None:
    bar = [b"\r%5.1f%%|%s|" % (number / 1800, b"#" * 80) for number in range(180_000)]
    lines = OverwrittenLines()
    output = b"".join(lines.feed(state, number / 10) for number, state in enumerate([*bar, b"\n"]))
    assert len(output) < 100_000
    assert output.count(b"\r") > 100, "a follower saw it go on"
    assert output.endswith(bar[-1] + b"\n")


class KeptLog:
    def __init__(self, directory: Path, limit_bytes: int, window_seconds: float = 60.0) -> None:
        lease, _ = a_lease()
        self.spool = LogSpool.open(directory, lease.attempt_id)
        self.buffer = LogBuffer(self.spool, 0.001)
        self.log = LimitedLog(self.buffer, limit_bytes, window_seconds)

    def text(self, *streams: str) -> bytes:
        self.buffer.flush()
        pieces = self.spool.read(0, 10**6, 10**9)
        return b"".join(piece.data for piece in pieces if piece.stream in streams)


async def test_the_beginning_and_the_end_are_kept_and_the_gap_is_marked(tmp_path: Path) -> None:
    kept_log, lines = (
        KeptLog(tmp_path, 65_536),
        [b"line %06d\n" % number for number in range(20_000)],
    )
    for line in lines:
        await kept_log.log.write("stdout", line)
    await kept_log.log.close()
    text = kept_log.text("stdout")
    assert text.startswith(b"".join(lines[:2_700])) and text.endswith(b"".join(lines[-1_300:]))
    assert set(text.splitlines(keepends=True)) <= set(lines), "only whole lines"
    dropped_bytes = len(b"".join(lines)) - len(text)
    assert kept_log.text("potluck").decode().startswith(f"{dropped_bytes / 1024:.0f} KiB of output")
    assert len(kept_log.text("stdout", "potluck")) < 65_536 + 1000
    kept_log.spool.close()


async def test_both_streams_and_many_small_pieces_share_the_limit(tmp_path: Path) -> None:
    kept_log = KeptLog(tmp_path, 16_384)
    for _ in range(20_000):
        await kept_log.log.write("stdout", b"o")
        await kept_log.log.write("stderr", b"e")
    await kept_log.log.write("stderr", b"the error")
    await kept_log.log.close()
    assert len(kept_log.text("stdout", "stderr")) <= 16_384
    assert kept_log.text("stderr").endswith(b"the error")
    kept_log.spool.close()


async def test_a_follower_sees_the_newest_lines_of_a_task_that_wrote_too_much(
    tmp_path: Path,
) -> None:
    kept_log = KeptLog(tmp_path, 2**20, window_seconds=0.2)
    for number in range(60_000):
        await kept_log.log.write("stdout", b"line %06d\n" % number)
    await kept_log.log.write("stdout", b"so far\n")
    async with asyncio.timeout(30):
        while b"so far" not in kept_log.text("stdout"):
            await asyncio.sleep(0.01)
    await kept_log.log.close()
    assert len(kept_log.text("stdout")) <= 2**20
    kept_log.spool.close()


async def test_the_end_of_the_log_names_its_items(tmp_path: Path) -> None:
    kept_log = KeptLog(tmp_path, 8_192)
    for item in range(100):
        await kept_log.log.begin_item(item)
        await kept_log.log.write("stdout", b"%d: %s\n" % (item, b"x" * 500))
    await kept_log.log.close()
    text = kept_log.text("stdout", "potluck")
    assert text.startswith(b"item 0:\n0: xx") and b"item 99:\n99: xx" in text
    assert b"item 50:" not in text
    kept_log.spool.close()


async def test_memory_and_disk_are_bounded_however_much_is_written(tmp_path: Path) -> None:
    kept_log = KeptLog(tmp_path, 2**20)
    tracemalloc.start()
    try:
        for _ in range(128):
            await kept_log.log.write("stdout", b"x" * 65_535 + b"\n")
            await kept_log.log.write("stderr", b"\r" + b"y" * 1000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 3 * 2**20
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1.1 * 2**20
    await kept_log.log.close()
    assert len(kept_log.text("stdout", "stderr", "potluck")) < 1.1 * 2**20
    kept_log.spool.close()
