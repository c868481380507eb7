"""The bytes of a month are counted across restarts, and a kill gives none back."""

from datetime import UTC, datetime
from pathlib import Path

from potluck.model.task import MIB
from potluck.provider.egress.monthly_bytes import MonthlyBytes


class Calendar:
    def __init__(self) -> None:
        self.today = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)

    def now(self) -> datetime:
        return self.today


def test_a_restart_continues_where_it_was(tmp_path: Path) -> None:
    counted = MonthlyBytes(tmp_path / "network.json", Calendar().now)
    counted.count(5)
    counted.settle()
    assert MonthlyBytes(tmp_path / "network.json", Calendar().now).moved_bytes == 5


def test_a_kill_gives_nothing_back(tmp_path: Path) -> None:
    counted = MonthlyBytes(tmp_path / "network.json", Calendar().now)
    for _ in range(3):
        counted.count(50 * MIB)
    killed = MonthlyBytes(tmp_path / "network.json", Calendar().now)
    assert 150 * MIB <= killed.moved_bytes <= 150 * MIB + 64 * MIB


def test_an_ended_task_does_not_fail_if_the_exact_count_cannot_be_written(tmp_path: Path) -> None:
    directory, moved = tmp_path / "data", tmp_path / "moved"
    directory.mkdir()
    counted = MonthlyBytes(directory / "network.json", Calendar().now)
    counted.count(5)
    directory.rename(moved)
    counted.settle()
    assert counted.moved_bytes == 5
    assert MonthlyBytes(moved / "network.json", Calendar().now).moved_bytes >= 5


def test_a_new_month_begins_with_nothing(tmp_path: Path) -> None:
    calendar = Calendar()
    counted = MonthlyBytes(tmp_path / "network.json", calendar.now)
    counted.count(7)
    calendar.today = datetime(2026, 12, 1, tzinfo=UTC)
    assert counted.moved_bytes == 0
    counted.count(2)
    assert counted.moved_bytes == 2
    counted.settle()
    assert MonthlyBytes(tmp_path / "network.json", calendar.now).moved_bytes == 2


def test_a_damaged_file_counts_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "network.json").write_bytes(b"{")
    assert MonthlyBytes(tmp_path / "network.json", Calendar().now).moved_bytes == 0
