"""Container engines for the tests: each with its own data, socket and configuration in a directory
of its own, ended by its own pid with all that it mounted.

    with starting("docker+runsc") as engine:
        with hosting(True, engine.kind) as host: …
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import Struct

from potluck.provider.sandbox.docker.docker import RUNSC, DockerDriver
from potluck.provider.sandbox.docker.engine import Engine, EngineError
from tests.processes import await_true

ENGINES = ("docker", "podman", "docker+runsc")
# gVisor's own ways to trap system calls need more of a processor than a virtual one may have.
_RUNSC_OPTIONS = ["--platform=ptrace", "--network=none", "--oci-seccomp"]


class Started(Struct, frozen=True):
    """An engine that runs."""

    name: str  # one of ENGINES
    socket: Path

    @property
    def kind(self) -> str:
        """As `tests.provider.sandbox.host` names its driver."""
        return f"{'runsc' if self.runtime else 'docker'}:{self.socket}"

    @property
    def runtime(self) -> str | None:
        return RUNSC if self.name.endswith(RUNSC) else None

    @property
    def api(self) -> Engine:
        return Engine(self.socket)

    def driver(self, state_directory: Path) -> DockerDriver:
        return DockerDriver(state_directory, "test", self.socket, self.runtime)


def skip_unless_possible(name: str) -> None:
    programs = {
        "docker": ("dockerd", "containerd", "runc"),
        "podman": ("podman", "conmon", "runc"),
        "docker+runsc": ("dockerd", "containerd", "runc", "runsc"),
    }
    if os.geteuid() != 0:
        pytest.skip("only root can start a container engine of its own")
    if missing := [program for program in programs[name] if shutil.which(program) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")


@contextmanager
def starting(
    name: str, wrapper: Sequence[str] = (), runsc_options: Sequence[str] = ()
) -> Iterator[Started]:
    """With the words of a wrapper before its own, such as those that enter a namespace."""
    skip_unless_possible(name)
    # Short, since the path of a socket may have 107 characters.
    directory = Path(tempfile.mkdtemp(prefix="potluck-"))
    socket = directory / "engine.sock"
    is_podman = name == "podman"
    command = (
        _podman(directory, socket) if is_podman else _dockerd(directory, socket, runsc_options)
    )
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [*wrapper, *command], stdout=log, stderr=log, start_new_session=True, cwd=directory
        )
    engine = Started(name, socket)
    try:
        await_true(lambda: _answers(engine, process, directory), f"{name} answers", 90)
        yield engine
    finally:
        _remove_containers(engine)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _end_rest(directory)
        _unmount(directory)
        shutil.rmtree(directory, ignore_errors=True)


def _dockerd(directory: Path, socket: Path, runsc_options: Sequence[str]) -> list[str]:
    runsc = {"path": shutil.which("runsc"), "runtimeArgs": [*_RUNSC_OPTIONS, *runsc_options]}
    settings = {
        "data-root": str(directory / "data"),
        "exec-root": str(directory / "exec"),
        "pidfile": str(directory / "pid"),
        "hosts": [f"unix://{socket}"],
        "bridge": "none",
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        **({"runtimes": {"runsc": runsc}} if runsc["path"] else {}),
    }
    file = directory / "daemon.json"
    file.write_text(json.dumps(settings))
    return ["dockerd", "--config-file", str(file)]


def _podman(directory: Path, socket: Path) -> list[str]:
    places = {"root": "data", "runroot": "run", "tmpdir": "tmp"}
    options = [f"--{option}={directory / name}" for option, name in places.items()]
    service = ["system", "service", "--time=0", f"unix://{socket}"]
    return ["podman", *options, "--cgroup-manager=cgroupfs", "--runtime=runc", *service]


def _answers(engine: Started, process: subprocess.Popen[bytes], directory: Path) -> bool:
    if process.poll() is not None:
        pytest.skip(f"{engine.name} does not start here: {(directory / 'log').read_text()[-500:]}")
    try:
        asyncio.run(engine.api.facts())
    except EngineError:
        return False
    return True


def _remove_containers(engine: Started) -> None:
    """Also those that a test left behind that failed."""

    async def remove() -> None:
        for container in await engine.api.labelled("potluck.node"):
            await engine.api.remove(container)

    try:
        asyncio.run(remove())
    except EngineError:
        return


def _end_rest(directory: Path) -> None:
    """Programs of the engine that outlive it for a moment, and would mount something once more."""
    deadline = time.monotonic() + 10
    while remaining_pids := _named_after(directory):
        if time.monotonic() > deadline:
            for pid in remaining_pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _named_after(directory: Path) -> list[int]:
    """Processes whose command line names the directory, which nobody else knows."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.fsencode(directory) in (entry / "cmdline").read_bytes():
                pids.append(int(entry.name))
    return pids


def _unmount(directory: Path) -> None:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4] for line in lines]
    for place in reversed([path for path in places if Path(path).is_relative_to(directory)]):
        subprocess.run(["umount", "--lazy", place], check=False)
