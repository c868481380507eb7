"""The bench of the scheduler, on pools of any size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.scheduler", "--rounds", "2", "--json", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_a_pool_with_room_for_little_is_measured_too() -> None:
    process = bench("--gpus", "1", "--tasks", "1")
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["gpus"] == 1


@pytest.mark.parametrize(
    "options",
    [
        ("--gpus", "-1"),
        ("--tasks", "0"),
        ("--accounts", "x"),
        ("--part", "2"),
        ("--against", "/no/checkout"),
    ],
)
def test_invalid_counts_are_refused_with_a_sentence(options: tuple[str, str]) -> None:
    process = bench(*options)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr and "is no" in process.stderr


def test_two_checkouts_are_measured_in_turns_and_their_decisions_compared() -> None:
    process = bench("--gpus", "100", "--tasks", "1000", "--against", str(ROOT), "--turns", "1")
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert report["has_same_decisions"] is True
    assert report["times_as_fast"]["fill_decisions_per_s"] > 0
