"""What one attempt keeps the next one can unpack; of what is not kept the log says why."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.task import MIB, EndReason
from potluck.provider.attempt.checkpoint import Checkpoints
from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.attempt.log_limit import LimitedLog
from potluck.provider.files import archive
from potluck.provider.sandbox.driver import WorkDirectory
from tests.provider.builders import a_lease, idle_freight


class Kept:
    """A directory that a task has filled, and what is kept of it."""

    def __init__(self, directory: Path) -> None:
        (directory / "work").mkdir()
        self.here = directory / "work/checkpoint"
        self.freight = idle_freight(directory)
        self._spool = LogSpool.open(directory, a_lease()[0].attempt_id)
        self._log = LogBuffer(self._spool, 60.0)
        self._work = WorkDirectory(os.open(directory / "work", os.O_RDONLY))
        self._checkpoints = Checkpoints(self.freight, LimitedLog(self._log, MIB, 60.0), 60.0, MIB)
        self._checkpoints.restore(self._work, None)

    async def text(self, times: int = 1) -> str:
        """The log, after so many ends."""
        for _ in range(times):
            await self._checkpoints.keep_last(self._work, EndReason.TIME_LIMIT)
        self._log.flush()
        return b"".join(piece.data for piece in self._spool.read(0, 99, 10**6)).decode()

    def close(self) -> None:
        os.close(self._work.descriptor)
        self.freight.outbox.discard()
        self._spool.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    it = Kept(tmp_path)
    yield it
    it.close()


async def test_plain_files_are_kept(kept: Kept) -> None:
    (kept.here / "state").write_text("so far")
    assert await kept.text() == ""
    assert len(kept.freight.outbox) == 1


async def test_names_that_are_one_elsewhere_are_not_kept(kept: Kept) -> None:
    (kept.here / "Model").touch()
    (kept.here / "model").touch()
    message = "the checkpoint is not saved: 'model' and 'Model' are the same on some systems\n"
    assert await kept.text(times=3) == message, "once"
    assert len(kept.freight.outbox) == 0


async def test_more_files_than_are_unpacked_are_not_kept(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MOST_ENTRIES", 3)
    for number in range(5):
        (kept.here / f"{number}").touch()
    assert "more than 3 entries" in await kept.text()
    assert len(kept.freight.outbox) == 0


async def test_holes_that_are_larger_than_the_disk_are_not_kept(kept: Kept) -> None:
    with (kept.here / "holes").open("wb") as file:
        file.truncate(10**12)
    assert "larger than the task's disk" in await kept.text()
    assert len(kept.freight.outbox) == 0
