"""A training script with a data set, dependencies, checkpoints and weights, killed twice.

It runs unchanged with one command: the project says the rest. The second run finds data,
environment and code on the node.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from potluck.consumer import Potluck
from potluck.model.error import NotFound
from potluck.model.task import MIB, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.wire.consumer import TaskView
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true
from tests.processes import potluck as program
from tests.provider.dependencies.package_index import LoopbackIndex, loopback_index, wheel

# The shape of training with PyTorch: a loader of shards, steps, checkpoints, a state dictionary.
TRAIN = """
import time
print("began", time.time_ns(), flush=True)
import hashlib, json, os, pathlib, sys
import tinytorch

data, weights_mib, pause = pathlib.Path("/data"), int(sys.argv[1]), float(sys.argv[2])
place = pathlib.Path(os.environ["POTLUCK_CHECKPOINT"]) / "state.json"
state = json.loads(place.read_text()) if place.exists() else {"step": 0, "digest": ""}
print("from", state["step"], flush=True)
shards = sorted(data.glob("*.bin"))
for step, shard in enumerate(shards):
    if step < state["step"]:
        continue
    digest = hashlib.sha256(state["digest"].encode())
    with shard.open("rb") as file:
        while batch := file.read(2**20):
            digest.update(batch)
    state = {"step": step + 1, "digest": tinytorch.step(digest.hexdigest())}
    new = place.with_suffix(".new")
    new.write_text(json.dumps(state))
    new.rename(place)
    print("step", step + 1, flush=True)
    time.sleep(pause)
with open(pathlib.Path(os.environ["POTLUCK_OUTPUT"]) / "weights.pt", "wb") as file:
    for _ in range(weights_mib):
        file.write(hashlib.sha256(state["digest"].encode()).digest() * 32_768)
print("done", state["digest"], flush=True)
"""
CLOCK = "import time; print('began', time.time_ns(), flush=True)"
SHARDS = 16


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Project:
    """A folder as people have it, and a pool with one node."""

    def __init__(self, top: Path, stack: ExitStack, data_mib: int, weights_mib: int) -> None:
        self.top, self.stack, self.weights_mib = top, stack, weights_mib
        index = stack.enter_context(loopback_index())
        source = b"def step(digest: str) -> str:\n    return digest[::-1]\n"
        index.add("tinytorch", *wheel("tinytorch", {"tinytorch.py": source}))
        self.server = ServerProcess(top, POTLUCK_LEASE_SECONDS="60")
        stack.enter_context(self.server)
        self.index_url = index.url
        self.provider = self.provide()
        self.folder, self.data = top / "project", top / "data"
        self._write_project(index)
        self._write_data(data_mib)
        self.client = stack.enter_context(Potluck(self.server.url, self.server.token))
        self.client.volumes.put("corpus", self.data)

    def provide(self) -> ProviderProcess:
        settings = {**FAST_PROVIDER, "POTLUCK_PROVIDER_INDEX_URL": self.index_url}
        provider = ProviderProcess(self.top / "node", self.server, **settings)
        return self.stack.enter_context(provider)  # type: ignore[no-any-return]

    def _write_project(self, index: LoopbackIndex) -> None:
        self.folder.mkdir()
        (self.folder / "train.py").write_text(TRAIN)
        (self.folder / "pyproject.toml").write_text(
            '[project]\nname = "training"\nversion = "1"\nrequires-python = ">=3.11"\n'
            'dependencies = ["tinytorch"]\n\n[tool.potluck]\nfolder = "."\n'
            f'volume = ["corpus:/data"]\ndisk = "{self.weights_mib + 64}MiB"\n'
            'checkpoint = "0.2s"\nattempts = 5\n'
        )
        uv = Path(sys.executable).with_name("uv")
        command = [str(uv), "lock", "--quiet", "--no-config", "--default-index", index.url]
        environment = {**os.environ, "UV_CACHE_DIR": str(self.top / "uv")}
        subprocess.run(command, cwd=self.folder, env=environment, check=True, timeout=120)

    def _write_data(self, data_mib: int) -> None:
        self.data.mkdir()
        noise = random.Random(1)
        for number in range(SHARDS):
            with (self.data / f"{number:02}.bin").open("wb") as file:
                for _ in range(max(1, data_mib // SHARDS)):
                    file.write(noise.randbytes(MIB))

    def run(self, output: Path, pause: float) -> "subprocess.Popen[str]":
        """The one command."""
        environment = {
            **os.environ,
            "POTLUCK_URL": self.server.url,
            "POTLUCK_TOKEN": self.server.token,
        }
        arguments = ("run", "--json", "-o", output, "train.py", str(self.weights_mib), str(pause))
        process = subprocess.Popen(
            program(*arguments),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stack.callback(process.kill)
        return process

    def newest(self) -> TaskView | None:
        tasks = self.client.tasks.list(limit=1).tasks
        return tasks[0] if tasks else None

    def log(self, task_id: str, attempt: int | None = None) -> str:
        """Empty before the attempt exists."""
        try:
            pieces = self.client.tasks.logs(task_id, attempt).pieces
        except NotFound:
            return ""
        return b"".join(piece.data for piece in pieces).decode()


def finish(process: "subprocess.Popen[str]", seconds: float) -> dict[str, Any]:
    stdout, stderr = process.communicate(timeout=seconds)
    assert process.returncode == 0, stderr
    document: dict[str, Any] = json.loads(stdout.splitlines()[-1])
    return document


def train_and_kill(project: Project, pause: float, seconds: float) -> None:
    running = project.run(project.top / "out", pause)
    task = await_true(project.newest, "it is submitted", 60)
    assert task is not None
    for kill in (1, 2):
        # It has come some steps further, and that is safe.
        def is_on_its_way() -> bool:
            return project.log(task.id, kill).count("step") >= 4  # noqa: B023

        await_true(is_on_its_way, f"attempt {kill} works", seconds)
        time.sleep(0.5)  # a checkpoint is saved every 0.2 s
        project.provider.kill()
        project.provider = project.provide()
    finish(running, seconds)
    ended_task = project.client.tasks.get(task.id)
    assert ended_task.state is TaskState.SUCCEEDED and ended_task.attempt_count == 3
    starts = [
        int(project.log(task.id, attempt_number).split("from ")[1].split()[0])
        for attempt_number in (1, 2, 3)
    ]
    assert starts[0] == 0 < starts[1] < starts[2], starts
    weights = project.top / "out" / "weights.pt"
    assert weights.stat().st_size == project.weights_mib * MIB
    # The node fetched the data once, for all three attempts.
    fetched = [
        attempt.usage.input_bytes for attempt in ended_task.attempts if attempt.usage is not None
    ]
    assert fetched and min(fetched) < MIB


def start_ms(project: Project, task_id: str) -> float:
    """From the submission to the first line of user code, by the clock of this machine."""
    task = project.client.tasks.wait(task_id)
    assert task.state is TaskState.SUCCEEDED, task
    began_ns = int(project.log(task.id).split("began ")[1].split()[0])
    return began_ns / 1e6 - task.created_at.timestamp() * 1e3


def compare_starts(project: Project, times: int) -> tuple[float, float]:
    """Medians of an empty script, and of the command's task once more; in turns."""
    finish(project.run(project.top / "again", 0), 600)
    last_task, tasks = project.newest(), project.client.tasks
    assert last_task is not None
    empty, warm = list[float](), list[float]()
    for _ in range(times):
        clock = tasks.submit(TaskRequest(ScriptSpec("clock.py", CLOCK)))
        empty.append(start_ms(project, clock.id))
        warm.append(start_ms(project, tasks.retry(last_task.id).id))
    return statistics.median(empty), statistics.median(warm)


def test_training_goes_on_after_two_kills(tmp_path: Path, stack: ExitStack) -> None:
    train_and_kill(Project(tmp_path, stack, 16, 4), pause=0.25, seconds=120)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_training_with_two_gib_resumes_and_the_second_run_starts_immediately(
    tmp_path: Path, stack: ExitStack
) -> None:
    project = Project(tmp_path, stack, 2048, 1024)
    train_and_kill(project, pause=0.5, seconds=600)
    project.weights_mib = 1
    empty, warm = compare_starts(project, 15)
    print(f"empty script {empty:.0f} ms, second run {warm:.0f} ms, ratio {warm / empty:.2f}")
    assert warm <= 1.5 * empty
