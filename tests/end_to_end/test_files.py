"""A large file goes in and out, past kill -9 of everybody who carries it, in little memory."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from potluck.model.task import MIB
from potluck.wire.files import PART_BYTES
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true

MOST_MEMORY_BYTES = 200 * MIB
# Every byte is turned around, so that what comes out is nothing that anybody has already.
TURN = """
turned = bytes(255 - byte for byte in range(256))
with open("data/in.bin", "rb") as file, open("output/out.bin", "wb") as out:
    while piece := file.read(2**20):
        out.write(piece.translate(turned))
"""
TURNED = bytes(255 - byte for byte in range(256))


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
    """One file, there, and turned around and back."""

    def __init__(self, directory: Path, stack: ExitStack, size: int, slowly: str) -> None:
        self.slowly = slowly  # so that there is time to kill somebody before all has passed
        self.directory, self._stack, self.size = directory, stack, size
        self.file = directory / "in.bin"
        sent_hash, returned_hash = hashlib.sha256(), hashlib.sha256()
        with self.file.open("wb") as file:
            for _ in range(size // MIB):
                piece = os.urandom(MIB)
                file.write(piece)
                sent_hash.update(piece)
                returned_hash.update(piece.translate(TURNED))
        self.sha256, self.turned_sha256 = sent_hash.hexdigest(), returned_hash.hexdigest()
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
        self.server.kill()

    def restart_server(self) -> None:
        self.server = self.serve(self.server.port)
        self.api = self.server.client()

    def move(self, *arguments: object, is_killed: bool = False) -> dict[str, list[str]]:
        """A consumer's own process; where it is to be killed, that is when it says `half`."""
        output: dict[str, list[str]] = {}
        environment = {**os.environ, "POTLUCK_TOKEN": self.server.token}
        command = [sys.executable, "-m", "tests.end_to_end.file_transfer", self.server.url]
        with subprocess.Popen(
            [*command, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                name, *values = line.split()
                output[name] = values
                if is_killed and name == "half":
                    self.memory.look(consumer=process.pid)
                    process.kill()
            process.wait(60)
        assert is_killed or process.returncode == 0
        return output

    def submit(self) -> str:
        blob = {"sha256": self.sha256, "size_bytes": self.size}
        spec = {"kind": "script", "filename": "turn.py", "source": TURN}
        task = self.api.post(
            "/v1/tasks",
            {
                "spec": {**spec, "files": [{"path": "data/in.bin", "blob": blob}]},
                "requirements": {"disk_bytes": self.size + 16 * MIB},
            },
        )
        assert "id" in task, task
        return str(task["id"])

    def concluded(self) -> int:
        """How many ends the provider's journal tells of, since it was begun anew."""
        (journal,) = (self.directory / "p" / "provider").glob("attempts/*/journal")
        return journal.read_bytes().count(b"concluded")

    def here_bytes(self) -> int:
        """Of the input, as far as the provider has it on its disk."""
        sizes = [0]
        for path in (self.directory / "p" / "provider").glob("files/*/*.part"):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return max(sizes)

    def arrived(self) -> dict[str, int]:
        """The parts of the output that the server has on its disk, and when each came."""
        arrival_times = {}
        for path in (self.directory / "server" / "blobs" / "uploads").glob("*/*"):
            with suppress(FileNotFoundError):
                arrival_times[path.name] = path.stat().st_mtime_ns
        return dict(sorted(arrival_times.items()))

    def is_outbox_empty(self) -> bool:
        return not list((self.directory / "p" / "provider").glob("attempts/*/outbox/*/*"))


def carry(trip: Trip) -> None:
    """Up, in, out, and down, and everybody killed in the middle of his way."""
    bring_up(trip)
    task_id = trip.submit()
    received_bytes = bring_in(trip)
    bring_out(trip)
    task = trip.api.finished(task_id, 120)
    assert task["state"] == "succeeded", task
    lost_attempt, won = task["attempts"]
    assert (lost_attempt["reason"], won["reason"]) == ("node_restarted", "completed")
    assert won["usage"]["input_bytes"] <= trip.size - received_bytes, (
        "the rest, and not all of it again"
    )
    assert won["usage"]["output_bytes"] == trip.size
    await_true(trip.is_outbox_empty, "the outbox is empty")
    trip.memory.look(provider=trip.provider.process.pid, server=trip.server.process.pid)
    bring_down(trip, task_id)


def bring_up(trip: Trip) -> None:
    """From the consumer to the server."""
    cut = trip.move("up", trip.file, trip.size // 2, is_killed=True)
    assert int(cut["half"][0]) < trip.size
    resumed = trip.move("up", trip.file)
    assert int(resumed["first"][0]) > int(cut["half"][0]) - 9 * MIB, "it went on where it was"
    assert resumed["blob"] == [trip.sha256]


def bring_in(trip: Trip) -> int:
    """From the server to the provider. Answers how much was here when the provider was killed."""
    await_true(lambda: trip.here_bytes() > trip.size // 8, "a part is here")
    trip.kill_server()
    received_bytes = trip.here_bytes()
    assert received_bytes < trip.size // 2
    trip.restart_server()
    await_true(lambda: trip.here_bytes() > received_bytes + trip.size // 8, "it goes on", 120)
    trip.kill_provider()
    received_bytes = trip.here_bytes()
    assert received_bytes < trip.size
    assert trip.concluded() == 0
    trip.provider = trip.provide(trip.slowly)
    return received_bytes


def bring_out(trip: Trip) -> None:
    """From the provider to the server."""
    parts = -(-trip.size // PART_BYTES)
    await_true(lambda: len(trip.arrived()) >= parts // 4, "the output is on its way", 120)
    trip.kill_provider()
    first = trip.arrived()
    assert len(first) <= parts // 2
    assert trip.concluded() == 2, "both attempts are over here"
    trip.provider = trip.provide(trip.slowly)
    await_true(lambda: len(trip.arrived()) >= len(first) + parts // 4, "it goes on", 120)
    trip.kill_server()
    second = trip.arrived()
    assert len(second) < parts
    assert first.items() <= second.items(), "it went on where it was"
    trip.restart_server()
    # What had come when the server was killed, and was not yet counted, comes again.
    del second[max(second)]
    await_true(lambda: len(trip.arrived()) > len(second) + 1, "it goes on", 120)
    assert second.items() <= trip.arrived().items(), "it went on where it was"


def bring_down(trip: Trip, task_id: str) -> None:
    """From the server to the consumer."""
    returned_file = trip.directory / "back"
    trip.move("down", returned_file, task_id, trip.size // 2, is_killed=True)
    resumed = trip.move("down", returned_file, task_id)
    assert int(resumed["first"][0]) > trip.size // 4, "it went on where it was"
    with (returned_file / "out.bin").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == trip.turned_sha256
    trip.memory.peaks["consumer again"] = int(resumed["memory"][0])


def test_64_mb_go_in_and_out_past_every_kill(tmp_path: Path, stack: ExitStack) -> None:
    trip = Trip(tmp_path, stack, 64 * MIB, "20 MB")
    carry(trip)
    print(f"memory of 64 MiB: {trip.memory.peaks}")
    assert max(trip.memory.peaks.values()) < MOST_MEMORY_BYTES, trip.memory.peaks


@pytest.mark.long
@pytest.mark.timeout(900)
def test_2_gib_go_in_and_out_past_every_kill(tmp_path: Path, stack: ExitStack) -> None:
    trip = Trip(tmp_path, stack, 2048 * MIB, "80 MB")
    carry(trip)
    print(f"memory of 2 GiB: {trip.memory.peaks}")
    assert max(trip.memory.peaks.values()) < MOST_MEMORY_BYTES, trip.memory.peaks
