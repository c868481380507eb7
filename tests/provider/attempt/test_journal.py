"""The journal keeps what it acknowledged, whatever happens to the process that writes it."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.ids import AttemptId
from potluck.model.task import EndReason, ItemRange
from potluck.provider.attempt import journal as journal_module
from potluck.provider.attempt.journal import (
    Concluded,
    Forgotten,
    ItemsCounted,
    ItemsTaken,
    Journal,
    Leased,
    OutcomesDelivered,
)
from potluck.wire.provider import ItemOutcome, ItemsDone
from tests.provider.builders import a_lease, completed


def reopened(directory: Path) -> dict[AttemptId, bool]:
    """Which attempts it knows, and whether each has an outcome."""
    journal = Journal.open(directory)
    journal.close()
    return {
        attempt.leased.lease.attempt_id: attempt.finished is not None for attempt in journal.kept
    }


def test_written_entries_survive_reopening(tmp_path: Path) -> None:
    (running, task), (finished, other_task), (forgotten, third_task) = (
        a_lease(),
        a_lease(),
        a_lease(),
    )
    journal = Journal.open(tmp_path)
    journal.write(
        [Leased(running, task), Leased(finished, other_task), Leased(forgotten, third_task)]
    )
    journal.write([Concluded(completed(finished)), Forgotten(forgotten.attempt_id)])
    journal.close()
    assert reopened(tmp_path) == {running.attempt_id: False, finished.attempt_id: True}
    [_, attempt] = Journal.open(tmp_path).kept
    assert attempt.finished == completed(finished)


def test_calls_that_came_and_have_no_outcome_are_known(tmp_path: Path) -> None:
    lease, task_id = a_lease()
    items_done = ItemsDone(
        lease, (ItemOutcome(4, EndReason.EXIT_STATUS, 0.5, 3, "it ended badly"),)
    )
    journal = Journal.open(tmp_path)
    items_taken = [ItemsTaken(lease.attempt_id, start, start + 3) for start in (2, 5)]
    journal.write([Leased(lease, task_id), *items_taken, ItemsCounted(items_done)])
    journal.write([OutcomesDelivered(lease.attempt_id, 4)])
    journal.close()
    for _ in range(2):  # the second time it was written anew
        journal = Journal.open(tmp_path)
        (attempt,) = journal.kept
        assert attempt.unfinished == ItemRange(5, 8)
        journal.close()
    journal = Journal.open(tmp_path)
    journal.write(
        [ItemsCounted(replace(items_done, outcomes=(replace(items_done.outcomes[0], item=7),)))]
    )
    journal.close()
    (attempt,) = Journal.open(tmp_path).kept
    assert attempt.unfinished is None


def test_outcomes_of_items_are_kept_until_they_are_delivered(tmp_path: Path) -> None:
    lease, task_id = a_lease()
    reports = [
        ItemsDone(lease, (ItemOutcome(item, EndReason.EXIT_STATUS, 0.5, 3, "it ended badly"),))
        for item in (0, 5, 9)
    ]
    journal = Journal.open(tmp_path)
    journal.write([Leased(lease, task_id), *map(ItemsCounted, reports)])
    journal.write([OutcomesDelivered(lease.attempt_id, 5)])
    journal.close()
    for _ in range(2):  # the second time it was written anew
        journal = Journal.open(tmp_path)
        (attempt,) = journal.kept
        assert list(attempt.outcomes.values()) == [reports[0], reports[2]]
        journal.close()


def test_a_file_cut_anywhere_reads_as_the_records_before_the_cut(tmp_path: Path) -> None:
    leases = [a_lease() for _ in range(4)]
    journal = Journal.open(tmp_path)
    lengths = [0]
    for lease, task in leases:
        journal.write([Leased(lease, task)])
        lengths.append((tmp_path / "journal").stat().st_size)
    journal.close()
    journal_bytes = (tmp_path / "journal").read_bytes()
    for cut in range(0, len(journal_bytes) + 1, 7):
        (tmp_path / "journal").write_bytes(journal_bytes[:cut])
        assert len(reopened(tmp_path)) == sum(length <= cut for length in lengths) - 1


def test_a_flipped_bit_is_not_read_as_a_record(tmp_path: Path) -> None:
    (first, task), (second, other_task) = a_lease(), a_lease()
    journal = Journal.open(tmp_path)
    journal.write([Leased(first, task), Leased(second, other_task)])
    journal.close()
    content = bytearray((tmp_path / "journal").read_bytes())
    content[-5] ^= 1
    (tmp_path / "journal").write_bytes(content)
    assert list(reopened(tmp_path)) == [first.attempt_id]


def test_the_journal_does_not_grow_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_REWRITE_FROM_RECORDS", 20)
    journal = Journal.open(tmp_path)
    stays, task = a_lease()
    journal.write([Leased(stays, task)])
    for _ in range(100):
        lease, other_task = a_lease()
        journal.write([Leased(lease, other_task)])
        journal.write([Forgotten(lease.attempt_id)])
    journal.close()
    assert (tmp_path / "journal").stat().st_size < 5_000
    assert reopened(tmp_path) == {stays.attempt_id: False}


def test_many_outcomes_that_wait_for_the_server_are_not_written_anew_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_REWRITE_FROM_RECORDS", 20)
    rewrites: list[Path] = []
    monkeypatch.setattr(journal_module, "sync", rewrites.append)
    lease, task_id = a_lease()
    journal = Journal.open(tmp_path)
    journal.write([Leased(lease, task_id)])
    for item in range(200):
        outcome = ItemOutcome(item, EndReason.COMPLETED, 0.5, 0)
        journal.write([ItemsCounted(ItemsDone(lease, (outcome,)))])
    journal.close()
    assert len(rewrites) < 5


def test_many_records_are_made_durable_by_one_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.open(tmp_path)
    synced_sizes: list[int] = []
    monkeypatch.setattr(
        "os.fsync", lambda descriptor: synced_sizes.append(os.fstat(descriptor).st_size)
    )
    leases = [a_lease() for _ in range(100)]
    journal.write([Leased(lease, task) for lease, task in leases])
    assert synced_sizes == [], "what the server takes back by itself need not survive the power"
    journal.write([Concluded(completed(lease)) for lease, _ in leases])
    assert synced_sizes == [(tmp_path / "journal").stat().st_size]
    journal.write([Forgotten(lease.attempt_id) for lease, _ in leases])
    assert len(synced_sizes) == 1
    journal.close()


STEPS = ["os.open", "os.write", "os.fsync", "pathlib.Path.replace"]


@pytest.mark.parametrize("step", STEPS)
def test_a_rewrite_that_fails_at_any_step_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    leases = [a_lease() for _ in range(3)]
    journal = Journal.open(tmp_path)
    journal.write([Leased(lease, task) for lease, task in leases])
    journal.close()

    def fail(*_: object) -> None:
        raise OSError("the machine went down here")

    with monkeypatch.context() as crash:
        crash.setattr(step, fail)
        with pytest.raises(OSError, match="went down"):
            Journal.open(tmp_path)
    assert list(reopened(tmp_path)) == [lease.attempt_id for lease, _ in leases]


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    Journal.open(tmp_path / "attempts").close()
    assert (tmp_path / "attempts").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "attempts" / "journal").stat().st_mode & 0o777 == 0o600


WRITER = """
import sys
from pathlib import Path
from potluck.provider.attempt import journal
from potluck.provider.attempt.journal import Concluded, Forgotten, Journal, Leased
from tests.provider.builders import a_lease, completed

journal._REWRITE_FROM_RECORDS = 50
book = Journal.open(Path(sys.argv[1]))
while True:
    batch = [a_lease() for _ in range(3)]
    book.write([Leased(lease, task) for lease, task in batch])
    print("leased", *(lease.attempt_id for lease, _ in batch), flush=True)
    book.write([Concluded(completed(batch[0][0]))])
    print("concluded", batch[0][0].attempt_id, flush=True)
    print("forgetting", batch[1][0].attempt_id, flush=True)
    book.write([Forgotten(batch[1][0].attempt_id)])
"""


@pytest.mark.parametrize("seed", range(5))
def test_every_acknowledged_record_survives_kill_9(tmp_path: Path, seed: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    statements = []
    try:
        # Killed after a random number of lines, so somewhere within the work between two of them.
        for _ in range(random.Random(seed).randint(1, 300)):
            statements.append(writer.stdout.readline())
    finally:
        writer.send_signal(signal.SIGKILL)
        statements += writer.stdout.read().splitlines()
        writer.wait()
        writer.stdout.close()
    check(reopened(tmp_path), [line.split() for line in statements if line])


def check(kept_attempts: dict[AttemptId, bool], statements: list[list[str]]) -> None:
    leased = {attempt_id for verb, *ids in statements if verb == "leased" for attempt_id in ids}
    concluded = {
        attempt_id for verb, *ids in statements if verb == "concluded" for attempt_id in ids
    }
    forgetting = {
        attempt_id for verb, *ids in statements if verb == "forgetting" for attempt_id in ids
    }
    assert leased
    assert leased - forgetting <= kept_attempts.keys()
    assert all(kept_attempts[AttemptId(attempt_id)] for attempt_id in concluded - forgetting)
