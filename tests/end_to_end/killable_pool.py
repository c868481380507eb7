"""A pool of one node that is killed at a point that a test names, and what that leaves behind."""

import asyncio
import base64
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import glob
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import cloudpickle
import psutil

from potluck.model.task import MIB
from potluck.provider.egress.serving_socket import socket_prefix
from potluck.provider.sandbox.bubblewrap.bwrap import sandbox_name
from potluck.provider.sandbox.hierarchy import find_hierarchy
from tests.control_groups import remove_groups
from tests.end_to_end.stalling_proxy import StallingProxy
from tests.end_to_end.tcp_proxy import FAR
from tests.processes import FAST_PROVIDER, PotluckProcess, ServerProcess, await_true
from tests.provider.dependencies.package_index import LoopbackIndex, loopback_index, wheel
from tests.provider.sandbox.docker.engine import Started

NAME = "killed"
# What a node keeps for the next task, and writes for itself; all else belongs to some attempt.
KEPT = ("files/", "environments/", "attempts/", "delegations/", "receipts/", "control")
STAGING = "environments/staging"
# The directory that those of runs are made in, and the filter that all of them have.
OF_ALL_RUNS = {
    *("sandbox/docker", "sandbox/seccomp.json", "sandbox/disks", "sandbox/container-disks")
}
# Disk images that are kept ready for the next runs.
MOST_SPARES = 2
OUTPUT_BYTES = 48 * MIB
# For as many tasks at once as there are points.
ROOMY = {"POTLUCK_PROVIDER_CORES": "16", "POTLUCK_PROVIDER_DISK_BYTES": str(2 * 2**30)}


class Node(PotluckProcess):
    def __init__(self, directory: Path, url: str, **environment: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        variables = {"POTLUCK_WALLET_KEY": ServerProcess.wallet.key.hex(), **FAST_PROVIDER}
        arguments = ["provide", url, "--data-dir", str(directory), "--name", NAME]
        super().__init__(arguments, {**variables, **environment}, directory / "provider.log")


class Pool:
    """One server, one node at the end of a line, and an index of packages."""

    def __init__(
        self,
        directory: Path,
        server: ServerProcess,
        line: StallingProxy,
        index: LoopbackIndex,
        engine: Started | None,
        **environment: str,
    ) -> None:
        self.directory = directory
        self._engine = engine
        self._containers: list[str] = []
        self.server = server
        self.client = server.client()
        self.line = line
        self.index = index
        self.environment = {"POTLUCK_PROVIDER_INDEX_URL": index.url, **ROOMY, **environment}
        if engine is not None:
            self.environment["POTLUCK_PROVIDER_DOCKER_URL"] = f"unix://{engine.socket}"
            self.data.mkdir(parents=True)
            (self.data / "provider.toml").write_text(f'sandbox = "{engine.kind.split(":")[0]}"\n')
        self.node = self._start()
        self._family: list[psutil.Process] = []

    @property
    def data(self) -> Path:
        return self.directory / "node" / "provider"

    def _start(self) -> Node:
        return Node(self.directory / "node", self.line.url, **self.environment)

    def kill(self) -> None:
        """As the power cut does; what the node had started is remembered."""
        self._family += self.started()
        self._containers += self.containers()
        self.node.kill()

    def end(self) -> None:
        """All that was started here, also what should have ended by itself."""
        if self.node.process.poll() is None:
            self._family += self.started()
            self.node.stop()
        for process in self._family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        remove_groups(self.data / "sandbox", NAME)

    def restart(self) -> None:
        self.node = self._start()

    def started(self) -> list[psutil.Process]:
        children: list[psutil.Process] = psutil.Process(self.node.process.pid).children(True)
        return children

    def containers(self) -> list[str]:
        if self._engine is None:
            return []
        return asyncio.run(self._engine.api.labelled("potluck.node"))

    def sandboxes(self) -> int:
        """How many there are; of bubblewrap's each has two processes."""
        if self._engine is None:
            return len([process for process in self.started() if process.name() == "bwrap"])
        return len(self.containers())

    def survivors(self) -> list[str]:
        """Of the processes that were there when it was killed."""
        return [str(process) for process in self._family if _is_alive(process)]

    def left(self) -> set[str]:
        """Whatever belongs to some attempt: processes, control groups, mounts, files."""
        hierarchy = find_hierarchy(f"{sandbox_name(self.data / 'sandbox', NAME)}-")
        groups = [] if hierarchy is None else list(hierarchy.leftovers())
        for container in self._containers:
            groups += glob(f"/sys/fs/cgroup/*/*/*{container}*")  # noqa: PTH207, others go meanwhile
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return {
            *(f"process {process}" for process in self.started()),
            *(f"container {container}" for container in self.containers()),
            *(f"group {group}" for group in groups),
            *(f"mount {mount.split()[4]}" for mount in mounts if str(self.data) in mount),
            *(f"file {file}" for file in self._files()),
            *(f"loop device of {image}" for image in self.images()[MOST_SPARES:]),
        }

    def images(self) -> list[str]:
        """The files below its directory that have a loop device."""
        devices = Path("/sys/block").glob("loop*/loop/backing_file")
        return [text for device in devices if str(self.data) in (text := device.read_text())]

    def _files(self) -> list[str]:
        paths = [str(path.relative_to(self.data)) for path in self.data.rglob("*")]
        journals = [path for path in paths if path.startswith("attempts/")]
        leftovers = [
            journal for journal in journals if "outbox/" in journal or journal.endswith(".log")
        ]
        leftovers += [path for path in paths if path.startswith(f"{STAGING}/")]
        leftovers += glob(f"{gettempdir()}/{socket_prefix(self.data)}*")  # noqa: PTH207
        nested = [path for path in paths if "/" in path and path not in OF_ALL_RUNS]
        return leftovers + [path for path in nested if not path.startswith(KEPT)]

    def submit(self, spec: dict[str, Any], **changes: Any) -> str:
        task = self.client.post("/v1/tasks", {"spec": spec, **changes})
        assert "id" in task, task
        return str(task["id"])

    def script(self, source: str, **fields: Any) -> str:
        requirements = {"memory_bytes": 256 * MIB, "disk_bytes": 128 * MIB}
        spec = {"kind": "script", "filename": "script.py", "source": source, **fields}
        return self.submit(spec, requirements=requirements)

    def upload(self, content: bytes) -> dict[str, Any]:
        blob = {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        upload = self.client.post("/v1/uploads", {"blob": blob})
        if upload["complete"]:  # of a test before this one
            return blob
        path, size = f"/v1/uploads/{upload['upload_id']}", upload["part_bytes"]
        for number in range(-(-len(content) // size)):
            part = content[number * size :][:size]
            kind = "application/octet-stream"
            self.client.call("PUT", f"{path}/parts/{number}", part, Content_Type=kind)
        await_true(lambda: self.client.post(f"{path}/finish", {})["complete"], "it is uploaded")
        return blob

    def until(self, condition: Callable[[], Any], description: str) -> None:
        await_true(condition, description, 30)


@contextmanager
def opened(directory: Path, engine: Started | None = None, **environment: str) -> Iterator[Pool]:
    """With bubblewrap, unless there is an engine."""
    with ExitStack() as stack:
        server = stack.enter_context(ServerProcess(directory, POTLUCK_HOST=FAR))
        line = stack.enter_context(StallingProxy(server.port))
        index = stack.enter_context(loopback_index())
        index.add("kind", *wheel("kind", {"kind.py": b"answer = 42\n"}))
        pool = Pool(directory, server, line, index, engine, **environment)
        stack.callback(pool.end)
        yield pool


# Each of these returns a task whose node is at that point now.


def preparing(pool: Pool) -> str:
    pool.index.stall("kind-1.0-py3-none-any.whl")
    needs = "# /// script\n# dependencies = ['kind']\n# ///\nimport kind\nprint(kind.answer)\n"
    task_id = pool.script(needs)
    pool.until(pool.index.asked.is_set, "a package is asked for")
    pool.index.serve_again()
    return task_id


def bringing_inputs(pool: Pool) -> str:
    blob = pool.upload(os.urandom(2 * MIB))
    is_held = pool.line.hold(b"/blobs/" + blob["sha256"].encode())
    size = "import os; assert os.path.getsize('data.bin') == 2 << 20"
    task_id = pool.script(size, files=[{"path": "data.bin", "blob": blob}])
    pool.until(is_held.is_set, "the file is asked for")
    return task_id


def before_the_start(pool: Pool) -> str:
    """The sandbox stands, and a folder of many files is unpacked in it."""
    folder = pool.upload(_folder(8_000))
    others = pool.sandboxes()
    task_id = pool.script("import os; assert len(os.listdir('many')) == 8_000", folder=folder)
    pool.until(lambda: pool.sandboxes() > others, "the sandbox is set up")
    (attempt,) = pool.client.task(task_id)["attempts"]
    assert attempt["state"] != "running"
    return task_id


def running(pool: Pool) -> str:
    source = "import os, time\nos.fork()\nprint('begun', flush=True)\ntime.sleep(3)\n"
    task_id = pool.script(source)
    pool.until(lambda: "begun" in pool.client.log(task_id), "it runs")
    return task_id


def collecting(pool: Pool) -> str:
    """What it left is being copied, and not all of it is here."""
    others = len(outboxes(pool, "content"))
    task_id = pool.script(_leaves(OUTPUT_BYTES))
    pool.until(
        lambda: len(outboxes(pool, "content")) > others, "files are taken out of the sandbox"
    )
    return task_id


def uploading(pool: Pool) -> str:
    """All of what it left is here, and a part of it on its way."""
    is_held = pool.line.hold(b"/parts/")
    task_id = pool.script(_leaves(OUTPUT_BYTES))
    pool.until(is_held.is_set, "a part is on its way")
    pool.until(lambda: outboxes(pool, "index"), "all is taken out of the sandbox")
    return task_id


def warm(pool: Pool) -> str:
    """A function has returned, and its interpreter waits for the next call."""

    def double(number: int) -> int:
        return 2 * number

    task_id = pool.submit(_call(double, 21))
    pool.client.finished(task_id)
    pool.until(lambda: pool.sandboxes(), "an interpreter is idle")
    return task_id


# Those that last come first: a node can be at several of them at once, and at one that passes.
LASTING: dict[str, Callable[[Pool], str]] = {
    "preparing": preparing,
    "bringing inputs": bringing_inputs,
    "uploading": uploading,
    "a warm interpreter idle": warm,
    "running": running,
}
PASSING = {"collecting": collecting, "before the start": before_the_start}


def _call(function: Callable[..., object], *arguments: object) -> dict[str, Any]:
    import pickle
    import sys

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    code = base64.b64encode(cloudpickle.dumps(function)).decode()
    inputs = base64.b64encode(pickle.dumps(arguments)).decode()
    return {
        "kind": "function",
        "name": "double",
        "code": {"data": code},
        "inputs": {"data": inputs},
        "python": f"3.{sys.version_info.minor}",
    }


def _leaves(size: int) -> str:
    return f"import os; open('output/left', 'wb').write(os.urandom({size}))"


def _folder(files: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for number in range(files):
            archive.addfile(tarfile.TarInfo(f"many/{number}"))
    return packed.getvalue()


def outboxes(pool: Pool, name: str) -> list[Path]:
    return list(pool.data.glob(f"attempts/*/outbox/*/{name}"))


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def files_of(pool: Pool, task_id: str) -> dict[str, int]:
    listing = json.loads(pool.client.call("GET", f"/v1/tasks/{task_id}/files").data)
    return {file["path"]: file["blob"]["size_bytes"] for file in listing["files"]}
