"""A large file goes in and out, past kill -9 of everybody who carries it, in little memory."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from potluck.model.task import MIB
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true

MOST_MEMORY_BYTES = 200 * MIB
COPY = """
import hashlib, shutil, time
time.sleep(1)  # for those who have to see that it runs
shutil.copyfile("data/in.bin", "output/out.bin")
print(hashlib.file_digest(open("output/out.bin", "rb"), "sha256").hexdigest())
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Memory:
    """The most that each process ever had; looked at before it is ended."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}

    def look(self, **processes: int) -> None:
        for name, pid in processes.items():
            text = Path(f"/proc/{pid}/status").read_text()
            peak = int(text.partition("VmHWM:")[2].split()[0]) * 1024
            self.peaks[name] = max(peak, self.peaks.get(name, 0))


class Trip:
    """One file, there and back."""

    def __init__(self, directory: Path, stack: ExitStack, size: int, slowly: str) -> None:
        self.slowly = slowly  # so that there is time to kill somebody before all has passed
        self.directory, self._stack, self.size = directory, stack, size
        self.file = directory / "in.bin"
        with self.file.open("wb") as file:
            for _ in range(size // MIB):
                file.write(os.urandom(MIB))
        with self.file.open("rb") as file:
            self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self.memory = Memory()
        self.server = self.serve()
        self.api = self.server.client()
        self.provider = self.provide(slowly)

    def serve(self, port: int = 0) -> ServerProcess:
        # On a busy machine a node takes its time to come back; it is to find its lease then.
        server = ServerProcess(self.directory, port, POTLUCK_LEASE_SECONDS="60")
        self._stack.enter_context(server)
        return server

    def provide(self, bandwidth: str = "1 GB") -> ProviderProcess:
        data = self.directory / "p" / "provider"
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / "provider.toml").write_text(f'bandwidth = "{bandwidth}"\n')
        provider = ProviderProcess(self.directory / "p", self.server, **FAST_PROVIDER)
        self._stack.enter_context(provider)
        return provider

    def kill_provider(self) -> None:
        self.memory.look(provider=self.provider.process.pid)
        self.provider.kill()

    def kill_server(self) -> None:
        self.memory.look(server=self.server.process.pid)
        port = self.server.port
        self.server.kill()
        self.server = self.serve(port)
        self.api = self.server.client()

    def move(self, *words: object, is_killed: bool = False) -> dict[str, list[str]]:
        """A consumer's own process; where it is to be killed, that is when it says `half`."""
        told: dict[str, list[str]] = {}
        environment = {**os.environ, "POTLUCK_TOKEN": self.server.token}
        command = [sys.executable, "-m", "tests.end_to_end.moving", self.server.url]
        with subprocess.Popen(
            [*command, *map(str, words)], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, *rest = line.split()
                told[name] = rest
                if is_killed and name == "half":
                    self.memory.look(consumer=process.pid)
                    process.kill()
            process.wait(60)
        assert is_killed or process.returncode == 0
        return told

    def submit(self) -> str:
        blob = {"sha256": self.sha256, "size_bytes": self.size}
        spec = {"kind": "script", "filename": "copy.py", "source": COPY}
        answer = self.api.post(
            "/v1/tasks",
            {
                "spec": {**spec, "files": [{"path": "data/in.bin", "blob": blob}]},
                "requirements": {"disk_bytes": self.size + 16 * MIB},
            },
        )
        assert "id" in answer, answer
        return str(answer["id"])

    def concluded(self) -> int:
        """How many ends the provider's journal tells of, since it was begun anew."""
        (journal,) = (self.directory / "p" / "provider").glob("attempts/*/journal")
        return journal.read_bytes().count(b"concluded")

    def part_bytes(self, pattern: str) -> int:
        """Of what the provider has on its disk."""
        sizes = [0]
        for path in (self.directory / "p" / "provider").glob(pattern):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return max(sizes)


@contextmanager
def held_still(server: ServerProcess) -> Iterator[None]:
    """Whatever it would do or answer meanwhile, it does not."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def carry(trip: Trip) -> Any:
    """Up, in, out, and down, and everybody killed on the way; answers the finished task."""
    half = trip.size // 2
    cut = trip.move("up", trip.file, half, is_killed=True)
    assert int(cut["half"][0]) < trip.size
    again = trip.move("up", trip.file)
    assert int(again["first"][0]) > int(cut["half"][0]) - 9 * MIB, "it went on where it was"
    assert again["blob"] == [trip.sha256]

    task_id = trip.submit()
    await_true(lambda: trip.part_bytes("files/*/*.part") > half // 2, "a part is here")
    trip.kill_provider()
    there = trip.part_bytes("files/*/*.part")
    assert there < trip.size
    trip.provider = trip.provide(trip.slowly)

    # The outbox is full, and what it holds is to go; but nobody lives to see it arrive.
    outbox = "attempts/*/outbox/*"
    await_true(lambda: trip.api.task(task_id)["state"] == "running", "it runs here", 120)
    with held_still(trip.server):
        await_true(lambda: trip.part_bytes(f"{outbox}/content") >= trip.size, "it is copied", 120)
        await_true(lambda: trip.concluded() == 2, "both attempts are over here", 120)
        trip.kill_provider()
        trip.kill_server()
    assert trip.api.task(task_id)["finished_at"] is None
    trip.provider = trip.provide()
    task = trip.api.finished(task_id, 120)
    assert task["state"] == "succeeded", task
    lost, won = task["attempts"]
    assert (lost["reason"], won["reason"]) == ("node_restarted", "completed")
    assert won["usage"]["input_bytes"] <= trip.size - there, "the rest, and not all of it again"
    assert won["usage"]["output_bytes"] == trip.size
    assert trip.sha256 in trip.api.log(task_id)
    await_true(lambda: not trip.part_bytes(f"{outbox}/*"), "the outbox is empty")
    trip.memory.look(provider=trip.provider.process.pid, server=trip.server.process.pid)

    back = trip.directory / "back"
    trip.move("down", back, task_id, half, is_killed=True)
    again = trip.move("down", back, task_id)
    assert int(again["first"][0]) > half // 2, "it went on where it was"
    with (back / "out.bin").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == trip.sha256
    trip.memory.peaks["consumer again"] = int(again["memory"][0])
    return task


def test_64_mb_go_in_and_out_past_every_kill(tmp_path: Path, stack: ExitStack) -> None:
    trip = Trip(tmp_path, stack, 64 * MIB, "25 MB")
    carry(trip)
    print(f"memory of 64 MiB: {trip.memory.peaks}")
    assert max(trip.memory.peaks.values()) < MOST_MEMORY_BYTES, trip.memory.peaks


@pytest.mark.long
def test_2_gib_go_in_and_out_past_every_kill(tmp_path: Path, stack: ExitStack) -> None:
    trip = Trip(tmp_path, stack, 2048 * MIB, "80 MB")
    carry(trip)
    print(f"memory of 2 GiB: {trip.memory.peaks}")
    assert max(trip.memory.peaks.values()) < MOST_MEMORY_BYTES, trip.memory.peaks
