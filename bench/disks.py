"""What the disk of a task costs its start: scripts on a disk image, and on a tmpfs.

    make bench-disks                        as root; ARGS="--scripts 200"

Two providers on this machine differ only in where work directories are, and get empty scripts one
by one in turns. `start_ms` is from the submission to the first line of the script, which says what
the clock was; `whole_ms` is until the client knows its end. Prints JSON.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.started import (
    SETTLE_SECONDS,
    LabelledProvider,
    complete_script,
    labelled_pool,
    read_output,
)
from potluck.consumer import Potluck

MOST_PERCENT = 10.0
PROVIDERS = {"image": LabelledProvider(), "tmpfs": LabelledProvider(module="bench.tmpfs_provider")}
_CLOCK = "import time; print(time.time_ns())"
_FILE_SYSTEM = """
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(next(line[line.index("-") + 1] for line in mounts if line[4] == "/work"))
"""
_FILE_SYSTEMS = {"image": "ext4", "tmpfs": "tmpfs"}


def start(client: Potluck, disk: str) -> tuple[float, float]:
    """Milliseconds until its first line, and until the client knows its end."""
    began, began_ns = time.perf_counter(), time.time_ns()
    task_id = complete_script(client, disk, _CLOCK)
    whole_seconds = time.perf_counter() - began
    return (int(read_output(client, task_id)) - began_ns) / 1e6, whole_seconds * 1000


def measure(scripts: int, directory: Path) -> dict[str, Any]:
    times: dict[str, list[tuple[float, float]]] = {disk: [] for disk in PROVIDERS}
    with labelled_pool(directory, PROVIDERS) as (_, _, client):
        time.sleep(SETTLE_SECONDS)
        for disk, name in _FILE_SYSTEMS.items():
            task_id = complete_script(client, disk, _FILE_SYSTEM)
            assert read_output(client, task_id).decode().strip() == name
        for number in range(3 + scripts):
            for disk in sorted(PROVIDERS, reverse=bool(number % 2)):
                times[disk].append(start(client, disk))
    figures = {}
    for position, name in enumerate(("start_ms", "whole_ms")):
        middle = {
            disk: statistics.median(pair[position] for pair in pairs[3:])
            for disk, pairs in times.items()
        }
        percent = round(100 * (middle["image"] / middle["tmpfs"] - 1), 1)
        rounded = {disk: round(value, 2) for disk, value in middle.items()}
        figures[name] = {**rounded, "more_percent": percent, "most_percent": MOST_PERCENT}
    return {"scripts": scripts, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description="What the disk of a task costs its start.")
    parser.add_argument("--scripts", type=int, default=200, help="on each kind of disk")
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(parser.parse_args().scripts, Path(directory)), indent=1))


if __name__ == "__main__":
    main()
