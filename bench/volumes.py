"""What putting, changing and mounting a volume costs: bytes, requests, seconds.

    make bench-volumes
    python -m bench.volumes --json --mib 2048

Starts a server and two nodes with their usual settings on loopback. A file of random bytes is put
as a volume, one byte of it is changed, and it is put again: the client's traffic is counted on its
way, in both directions. A task mounts it: the first node fetches it. The second task on that node
fetches nothing and starts as soon as a script without a volume, and goes there though both nodes
are idle: `holders` is what `potluck explain` says of it. The next version costs the node what it
cost the client. A task that only the second node can take makes that one fetch it, too.
"""

import argparse
import json
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.started import LabelledProvider, labelled_pool, read_output
from potluck.consumer import Potluck
from potluck.model.blob import VolumeMount
from potluck.model.task import MIB, Requirements, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.wire.consumer import TaskView

MOST_CHANGED_SHARE = 0.01
MOST_WARM_RATIO = 1.5
_READ_BYTES = 2**18
_REQUEST = b" HTTP/1.1\r\n"
# Says when it began, and that the data is there.
_SCRIPT = """
import os, time
print(time.time_ns())
for name in os.listdir("/data") if os.path.isdir("/data") else []:
    assert os.path.getsize(f"/data/{name}") > 0
"""


class CountingLine:
    """A line to the server that counts bytes and requests."""

    def __init__(self, port: int) -> None:
        self.bytes = self.requests = 0
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                for source, target in ((near, far), (far, near)):
                    threading.Thread(
                        target=self._pump, args=(source, target, source is near), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_READ_BYTES):
                self.bytes += len(data)
                self.requests += data.count(_REQUEST) if is_asking else 0
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @contextmanager
    def measured(self, into: dict[str, Any]) -> Iterator[None]:
        size, requests, began = self.bytes, self.requests, time.perf_counter()
        yield
        into["seconds"] = round(time.perf_counter() - began, 2)
        into["bytes"] = self.bytes - size
        into["requests"] = self.requests - requests


def write_file(path: Path, mib: int) -> None:
    with path.open("wb") as file:
        for _ in range(mib // 8):
            file.write(os.urandom(8 * MIB))


def change_byte(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 3)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([255 - byte]))


def run(client: Potluck, has_volume: bool, kind: str = "") -> tuple[TaskView, dict[str, Any]]:
    """Runs the script to its end: the task, and how soon it began and what its node fetched."""
    mounts = (VolumeMount("bench", "/data"),) if has_volume else ()
    needs = Requirements(volumes=mounts, labels=(f"kind={kind}",) if kind else ())
    began = time.time_ns()
    submitted = client.tasks.submit(TaskRequest(ScriptSpec("look.py", _SCRIPT), requirements=needs))
    task = client.tasks.wait(submitted.id)
    assert task.state is TaskState.SUCCEEDED, task
    usage = task.attempts[-1].usage
    assert usage is not None
    return task, {
        "start_ms": round((int(read_output(client, task.id)) - began) / 1e6, 1),
        "fetched_bytes": usage.input_bytes,
        "node": task.attempts[-1].node_name,
    }


def median_start_ms(client: Potluck, has_volume: bool, times: int) -> float:
    starts: list[float] = [run(client, has_volume)[1]["start_ms"] for _ in range(times)]
    return round(statistics.median(starts), 1)


def measure(mib: int, times: int, directory: Path) -> dict[str, Any]:
    result: dict[str, Any] = {"mib": mib}
    first_put: dict[str, Any] = {}
    second_put: dict[str, Any] = {}
    with ExitStack() as stack:
        providers = {name: LabelledProvider() for name in ("first", "second")}
        pool = stack.enter_context(labelled_pool(directory, providers))
        line = CountingLine(int(pool.url.rsplit(":", 1)[1]))
        stack.callback(line.close)
        client = stack.enter_context(Potluck(line.url, pool.token))
        file = directory / "data.bin"
        write_file(file, mib)
        with line.measured(first_put):
            client.volumes.put("bench", file)
        result["put"] = first_put
        _, result["first_run"] = run(client, True, "first")
        run(client, False)
        empty_ms = median_start_ms(client, False, times)
        warm_ms = median_start_ms(client, True, times)
        task, result["second_run"] = run(client, True)
        result["holders"] = [each.node_names for each in client.tasks.explain(task.id).volumes]
        result["empty_script_start_ms"] = empty_ms
        result["mounted_start_ms"] = warm_ms
        result["mounted_start_ratio"] = round(warm_ms / empty_ms, 2)
        change_byte(file)
        with line.measured(second_put):
            client.volumes.put("bench", file)
        second_put["share_of_bytes"] = round(second_put["bytes"] / (mib * MIB), 5)
        result["put_one_byte_changed"] = second_put
        _, result["run_of_changed"] = run(client, True, "first")
        _, result["second_node"] = run(client, True, "second")
    result["most_share_of_bytes"] = MOST_CHANGED_SHARE
    result["most_mounted_start_ratio"] = MOST_WARM_RATIO
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="What putting and mounting a volume costs.")
    parser.add_argument("--mib", type=int, default=2048, help="the size of the volume")
    parser.add_argument("--times", type=int, default=15, help="starts of which the median is taken")
    parser.add_argument("--json", action="store_true", help="on one line")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as directory:
        result = measure(asked.mib, asked.times, Path(directory))
    print(json.dumps(result, indent=None if asked.json else 2))


if __name__ == "__main__":
    main()
