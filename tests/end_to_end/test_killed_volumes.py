"""kill -9 of each side in each phase of a volume: nothing is half visible, and all resumes."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from potluck.consumer import Potluck
from potluck.consumer.http.transport import Patience
from potluck.model.blob import VolumeMount
from potluck.model.task import MIB, Requirements, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true

HASH = """
import hashlib, pathlib
for path in sorted(pathlib.Path("/data").iterdir()):
    with path.open("rb") as file:
        print(path.name, hashlib.file_digest(file, "sha256").hexdigest())
"""
# A client of its own, which says how much has arrived and, if asked to, then stands still.
PUT = """
import sys, time
from potluck.consumer import Potluck
def tell(done, total):
    print("sent", done, flush=True)
    if done >= int(sys.argv[4]):
        time.sleep(600)
with Potluck(sys.argv[1]) as client:
    put = client.volumes.put(sys.argv[2], sys.argv[3], on_progress=tell)
    print("done", put.sent_bytes, flush=True)
"""


class Scene:
    """A server, one slow node, and a folder of a few packs."""

    def __init__(self, top: Path, stack: ExitStack, mib: int, bandwidth: str) -> None:
        self.top, self.stack = top, stack
        self.folder = top / "folder"
        self.folder.mkdir()
        noise = random.Random(mib)
        for number in range(2):
            with (self.folder / f"{number}.bin").open("wb") as file:
                for _ in range(mib // 2):
                    file.write(noise.randbytes(MIB))
        self.server = self.serve()
        self.bandwidth = bandwidth

    def serve(self, port: int = 0) -> ServerProcess:
        server = ServerProcess(self.top, port, POTLUCK_LEASE_SECONDS="60")
        return self.stack.enter_context(server)  # type: ignore[no-any-return]

    def provide(self, bandwidth: str = "1 GB") -> ProviderProcess:
        data = self.top / "p" / "provider"
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (data / "provider.toml").write_text(f'bandwidth = "{bandwidth}"\n')
        provider = ProviderProcess(self.top / "p", self.server, **FAST_PROVIDER)
        return self.stack.enter_context(provider)  # type: ignore[no-any-return]

    def client(self) -> Potluck:
        patience = Patience(give_up_seconds=60)
        client = Potluck(self.server.url, self.server.token, patience)
        return self.stack.enter_context(client)

    def put(self, stop_at: int = 2**62) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PUT, self.server.url, "data", str(self.folder)]
        environment = {**os.environ, "POTLUCK_TOKEN": self.server.token}
        process = subprocess.Popen(
            [*command, str(stop_at)], env=environment, stdout=subprocess.PIPE, text=True
        )
        self.stack.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def sum_of_tree(self) -> list[str]:
        import hashlib

        return [
            f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            for path in sorted(self.folder.iterdir())
        ]

    def partial_bytes(self) -> int:
        """What the node has of a volume that is not complete."""
        files = (self.top / "p" / "provider" / "volumes").glob("*/*.part/tree/*")
        return sum(file.stat().st_size for file in files)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def told(process: subprocess.Popen[str], word: str) -> int:
    """The number in the next line that begins with this word."""
    assert process.stdout is not None
    for line in process.stdout:
        name, number = line.split()
        if name == word:
            return int(number)
    raise AssertionError(f"it ended without {word!r}")


def go_through(scene: Scene) -> None:
    size = sum(file.stat().st_size for file in scene.folder.iterdir())
    # The client, in the middle of sending.
    killed = scene.put(stop_at=1)
    sent = told(killed, "sent")
    killed.kill()
    killed.wait()
    client = scene.client()
    assert client.volumes.list() == [], "nothing of it shows"
    # The server, in the middle of receiving: the client waits for it, and goes on.
    second = scene.put()
    told(second, "sent")
    scene.server.kill()
    scene.server = scene.serve(scene.server.port)
    assert told(second, "done") < size, "what the first one sent is not sent again"
    assert second.wait(60) == 0
    (volume,) = scene.client().volumes.list()
    assert (volume.newest.size_bytes, volume.versions) == (size, 1)
    # A manifest has some 45 bytes for each chunk of about 1 MiB.
    most_manifest = max(2**16, size // 2**14)
    assert size <= volume.stored_bytes < size + most_manifest, "what was sent is stored once"
    assert sent < size, "it was killed in the middle"
    # The node, in the middle of fetching, twice; the task goes on with what is there.
    provider = scene.provide(scene.bandwidth)
    client = scene.client()
    needs = Requirements(volumes=(VolumeMount("data", "/data"),))
    task_id = client.tasks.submit(TaskRequest(ScriptSpec("h.py", HASH), requirements=needs)).id
    for part in (1, 2):
        await_true(lambda: scene.partial_bytes() > part * size // 4, "a part is there", 60)  # noqa: B023
        provider.kill()
        partial_bytes = scene.partial_bytes()
        assert 0 < partial_bytes < size
        assert not list((scene.top / "p" / "provider" / "volumes").glob(f"*/{'?' * 64}"))
        provider = scene.provide(scene.bandwidth if part == 1 else "1 GB")
    # The server, while the node fetches; with so much bandwidth that may be over, too.
    scene.server.kill()
    scene.server = scene.serve(scene.server.port)
    task = scene.client().tasks.wait(task_id)
    assert task.state is TaskState.SUCCEEDED, task
    pieces = scene.client().tasks.logs(task_id).pieces
    assert b"".join(piece.data for piece in pieces).decode().split("\n")[:-1] == scene.sum_of_tree()
    usage = task.attempts[-1].usage
    assert usage is not None and usage.input_bytes <= size - partial_bytes + 5 * MIB, "it resumed"
    # After one more kill the complete tree is there, and nothing is fetched.
    provider.kill()
    scene.provide()
    second_task = scene.client().tasks.wait(
        scene.client().tasks.submit(TaskRequest(ScriptSpec("h.py", HASH), requirements=needs)).id
    )
    usage = second_task.attempts[-1].usage
    assert usage is not None and usage.input_bytes == 0


def test_a_volume_survives_kill_9_of_each_side(tmp_path: Path, stack: ExitStack) -> None:
    go_through(Scene(tmp_path, stack, 48, "8 MB"))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_gib_survive_kill_9_of_each_side(tmp_path: Path, stack: ExitStack) -> None:
    go_through(Scene(tmp_path, stack, 2048, "200 MB"))
