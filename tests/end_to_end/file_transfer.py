"""A consumer in a process of its own, which a test can kill in the middle of a file.

    python -m tests.end_to_end.file_transfer URL up FILE [STOP_AT]
    python -m tests.end_to_end.file_transfer URL down FILE TASK_ID [STOP_AT]

Its first line says how many bytes were there already, its last one that it is done and how much
memory it took. With STOP_AT it says so when that many bytes have passed, and goes no further.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from potluck.consumer.client import Potluck


def stopping(stop_at: int) -> Callable[[int, int], None]:
    reported: list[int] = []

    def progress(done_bytes: int, _: int) -> None:
        if not reported:
            print("first", done_bytes, flush=True)
        reported.append(done_bytes)
        if done_bytes >= stop_at:
            print("half", done_bytes, flush=True)
            time.sleep(600)

    return progress


def main(url: str, direction: str, file: str, *arguments: str) -> None:
    arguments_left = list(arguments)
    task_id = arguments_left.pop(0) if direction == "down" else ""
    progress = stopping(int(arguments_left[0]) if arguments_left else 2**62)
    with Potluck(url) as potluck:
        if direction == "up":
            blob = potluck.files.upload(Path(file), progress)
            print("blob", blob.sha256, flush=True)
        else:
            potluck.files.fetch(task_id, Path(file), on_progress=progress)
    # The kernel's other account, ru_maxrss, begins with what the parent had at the fork.
    peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print("memory", int(peak) * 1024, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
