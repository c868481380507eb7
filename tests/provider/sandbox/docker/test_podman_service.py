"""An ordinary user with Podman has containers without set-up; Podman ends with the provider."""

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.provider.egress.serving_socket import socket_prefix
from potluck.provider.sandbox.docker.podman_service import PodmanService, serve_podman
from tests.ordinary_user import NOBODY, need_ordinary_user
from tests.processes import await_true
from tests.provider.sandbox.conftest import REPOSITORY


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory of an ordinary user, with everything that Podman keeps."""
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user without containers of their own")
    for program in ("podman", "conmon", "busybox"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    need_ordinary_user()
    directory = Path(tempfile.mkdtemp(prefix="potluck-podman-"))
    for path in (directory, directory / "run", directory / "state"):
        path.mkdir(exist_ok=True)
        os.chown(path, NOBODY, NOBODY)
    try:
        yield directory
    finally:
        end_podman(directory)
        shutil.rmtree(directory, ignore_errors=True)


def end_podman(home: Path) -> None:
    """The process that keeps Podman's user namespace, as Podman itself ends it."""
    pid = home / "run/libpod/tmp/pause.pid"
    if pid.exists():
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_podman_is_found_started_and_ended(home: Path) -> None:
    variables = {
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": "src",
    }
    command = [
        sys.executable,
        "-m",
        "tests.provider.sandbox.docker.podman_user",
        str(home / "state"),
    ]
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=variables,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(5)]
        assert lines[0] == "bwrap containers by Podman user namespace", process.stderr.read()
        assert lines[2:] == ["completed done", "idle", "serving"]
        assert services_of(home)
    finally:
        process.kill()
        process.communicate()
    await_true(lambda: not services_of(home), "Podman ends with the provider that was killed")


async def test_its_socket_stays_when_a_sandbox_is_tried_again(tmp_path: Path) -> None:
    service = serve_podman("podman", tmp_path)
    assert serve_podman("podman", tmp_path).socket == service.socket
    assert service.socket.exists()


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary directory of the test alone, whose path leaves room for a socket."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


async def test_names_that_other_users_took_are_no_obstacle(temporary: Path) -> None:
    parent = temporary / "sandbox"
    (temporary / f"{socket_prefix(parent)}taken").symlink_to(temporary / "nowhere")
    leftover = temporary / f"{socket_prefix(parent)}leftover"
    leftover.mkdir()
    assert PodmanService("podman", parent).socket.exists()
    assert not leftover.exists()


async def test_a_service_that_cannot_start_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    service = PodmanService("podman", tmp_path)
    for _ in range(2):
        reader, writer = await asyncio.open_unix_connection(service.socket)
        assert await asyncio.wait_for(reader.read(), 10) == b"", "refused, not left waiting"
        writer.close()


def services_of(home: Path) -> list[str]:
    """The services of this user, by the variable that names their directory."""
    service_names = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"system\0service" in command and f"HOME={home}\0".encode() in variables:
            service_names.append(entry.name)
    return service_names
