"""How soon a consumer's code begins, and how soon a warm function answers.

    make bench-start
    python -m bench.start --json

Starts PostgreSQL, a server and a provider in its sandbox with their usual settings on loopback, and
lets them settle.
`script_cold_p50_ms` is from the submission of a plain Python script to its first line: each runs in
a sandbox of its own, and says what the clock was. `function_warm_p50_ms` is from `submit()` to
`result()` of a function whose interpreter is warm.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import potluck
from bench.started import SETTLE_SECONDS, read_output, whole_pool
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec

MOST_COLD_MS = 60.0
MOST_WARM_MS = 8.0
_CLOCK = "import time; print(time.time_ns())"


def nothing(number: int) -> int:
    return number


def cold_ms(client: potluck.Potluck) -> float:
    began = time.time_ns()
    task = client.tasks.submit(TaskRequest(ScriptSpec("clock.py", _CLOCK)))
    ended = client.tasks.wait(task.id)
    assert ended.state is TaskState.SUCCEEDED, ended
    return (int(read_output(client, task.id)) - began) / 1e6


def warm_ms(function: potluck.RemoteFunction[[int], int], number: int) -> float:
    began = time.perf_counter()
    assert function.submit(number).result() == number
    return (time.perf_counter() - began) * 1000


def measure(scripts: int, calls: int, directory: Path) -> dict[str, object]:
    with whole_pool(directory) as pool:
        function = potluck.task(client=pool.client)(nothing)
        time.sleep(SETTLE_SECONDS)
        cold = [cold_ms(pool.client) for _ in range(1 + scripts)][1:]
        warm = [warm_ms(function, number) for number in range(3 + calls)][3:]
    return {
        "script_cold_p50_ms": round(statistics.median(cold), 2),
        "script_cold_best_ms": round(min(cold), 2),
        "most_script_cold_ms": MOST_COLD_MS,
        "function_warm_p50_ms": round(statistics.median(warm), 2),
        "function_warm_best_ms": round(min(warm), 2),
        "most_function_warm_ms": MOST_WARM_MS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="How soon code begins, and a function answers.")
    parser.add_argument("--scripts", type=int, default=30)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--json", action="store_true", help="which is what it prints anyway")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(measure(given.scripts, given.calls, Path(directory)), indent=2))


if __name__ == "__main__":
    main()
