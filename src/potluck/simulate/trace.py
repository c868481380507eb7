"""Reads a trace of jobs: submission time, duration, GPUs and account of each."""

import csv
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from potluck.model.error import InvalidInput

_COLUMNS = ("timestamp", "duration", "num_gpus")
_MOST_SECONDS = 1e9  # thirty years


class TraceJob(Struct, frozen=True):
    submitted_at: float  # seconds since 1970
    seconds: float
    gpus: int
    account: str


def read_trace(path: Path) -> list[TraceJob]:
    """The jobs of a CSV file, in order of submission."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise InvalidInput(
                    f"{path} has no column {missing[0]}.",
                    "A trace has the columns timestamp, duration, num_gpus and optionally cluster.",
                )
            jobs = [_job(path, rows.line_num, row) for row in rows]
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}.", "Name a CSV file.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text file.", "Name a CSV file.") from error
    if not jobs:
        raise InvalidInput(f"{path} contains no jobs.", "Name another trace.")
    return sorted(jobs, key=lambda job: job.submitted_at)


def _job(path: Path, line: int, row: dict[str, str]) -> TraceJob:
    try:
        submitted = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC)
        job = TraceJob(
            submitted_at=submitted.timestamp(),
            seconds=float(row["duration"]),
            gpus=int(row["num_gpus"]),
            account=row.get("cluster") or "everybody",
        )
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Line {line} of {path} is not a job.",
            "It needs a time such as 2017-10-09 12:30:00, a duration in seconds, and a whole number"
            " of GPUs.",
        ) from error
    if not (0 <= job.seconds <= _MOST_SECONDS and job.gpus >= 1):
        raise InvalidInput(
            f"Line {line} of {path}: a job cannot take {job.seconds:g} s on {job.gpus} GPUs.",
            "Correct the line, or remove it.",
        )
    return job
