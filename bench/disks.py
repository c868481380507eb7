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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.started import new_wallet, started
from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet as KeyWallet
from potluck.model.ids import TaskId
from potluck.model.task import Requirements, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec

MOST_PERCENT = 10.0
MODULES = {"image": "potluck", "tmpfs": "bench.tmpfs_provider"}
_CLOCK = "import time; print(time.time_ns())"
_FILE_SYSTEM = """
mounts = [line.split() for line in open("/proc/self/mountinfo")]
print(next(line[line.index("-") + 1] for line in mounts if line[4] == "/work"))
"""
_FILE_SYSTEMS = {"image": "ext4", "tmpfs": "tmpfs"}
_SETTLE_SECONDS = 6.0  # a provider that has just started still measures its devices


@contextmanager
def pool(directory: Path) -> Iterator[Potluck]:
    """A server, and a provider for each kind of disk, which a label names."""
    wallet = new_wallet()
    key = KeyWallet(bytes.fromhex(wallet.key))
    with ExitStack() as stack:
        given: tuple[str | Path, ...] = (
            "server",
            "--port",
            "0",
            "--data-dir",
            directory / "server",
        )
        log = directory / "server.log"
        running = stack.enter_context(started(given, {"POTLUCK_OPERATOR": wallet.address}, log))
        url = running.first["url"]
        for disk, module in MODULES.items():
            given = ("provide", url, "--data-dir", directory / disk, "--name", disk)
            labelled = (*given, "--label", f"disk={disk}")
            log = directory / f"{disk}.log"
            variables = {"POTLUCK_WALLET_KEY": wallet.key}
            stack.enter_context(started(labelled, variables, log, module))
        token = sign_in(connect_anonymously(url), key).access_token
        yield stack.enter_context(Potluck(url, token))


def run(client: Potluck, disk: str, source: str) -> TaskId:
    request = TaskRequest(
        ScriptSpec("script.py", source), requirements=Requirements(labels=(f"disk={disk}",))
    )
    ended = client.tasks.wait(client.tasks.submit(request).id)
    assert ended.state is TaskState.SUCCEEDED, ended
    return ended.id


def output(client: Potluck, task_id: TaskId) -> str:
    return b"".join(piece.data for piece in client.tasks.logs(task_id).pieces).decode()


def start(client: Potluck, disk: str) -> tuple[float, float]:
    """Milliseconds until its first line, and until the client knows its end."""
    began, began_ns = time.perf_counter(), time.time_ns()
    task_id = run(client, disk, _CLOCK)
    whole_seconds = time.perf_counter() - began
    return (int(output(client, task_id)) - began_ns) / 1e6, whole_seconds * 1000


def measure(scripts: int, directory: Path) -> dict[str, Any]:
    times: dict[str, list[tuple[float, float]]] = {disk: [] for disk in MODULES}
    with pool(directory) as client:
        time.sleep(_SETTLE_SECONDS)
        for disk, name in _FILE_SYSTEMS.items():
            assert output(client, run(client, disk, _FILE_SYSTEM)).strip() == name
        for number in range(3 + scripts):
            for disk in sorted(MODULES, reverse=bool(number % 2)):
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
