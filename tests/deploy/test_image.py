"""The image of `deploy/Dockerfile`: built, started, asked and stopped, by Podman."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import urllib3

from tests.architecture.repository_files import ROOT
from tests.deploy.debian_base import pack_base
from tests.processes import await_true, free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

BASE, NAME = "localhost/debian-python:test", "localhost/potluck:test"
# Root without CAP_SYS_RESOURCE cannot raise limits, which Podman does by default.
_LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")


class Podman:
    """With data of its own."""

    def __init__(self, directory: Path) -> None:
        places = {"root": "data", "runroot": "run", "tmpdir": "tmp"}
        options = [f"--{option}={directory / place}" for option, place in places.items()]
        self._command = ["podman", *options, "--cgroup-manager=cgroupfs", "--runtime=runc"]

    def __call__(self, *arguments: str | Path) -> str:
        command = [*self._command, *map(str, arguments)]
        process = subprocess.run(command, capture_output=True, text=True)
        assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
        return process.stdout


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    if os.geteuid() != 0 or not all(map(shutil.which, ("podman", "runc", "dpkg"))):
        pytest.skip("needs root, podman, runc and Debian's packages")
    directory = tmp_path_factory.mktemp("podman")
    podman = Podman(directory)
    yield podman
    podman("rm", "--all", "--force")
    podman("rmi", "--all", "--force")
    subprocess.run(["umount", directory / "data" / "overlay"], capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def image(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("image")
    wheels, context = directory / "wheels", directory / "context"
    fetched = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"),
            *("--require-hashes", "-r", ROOT / "locks" / "run.txt", "-d", wheels),
        ],
        capture_output=True,
        text=True,
    )
    if fetched.returncode != 0:
        pytest.skip(f"the package index does not answer: {fetched.stderr[-300:]}")
    (context / "locks").mkdir(parents=True)
    shutil.copy(ROOT / "locks" / "run.txt", context / "locks")
    subprocess.run([ROOT / "scripts" / "release.sh", context / "dist"], check=True)
    pack_base(directory / "base.tar")
    podman("import", "--quiet", directory / "base.tar", BASE)
    podman(
        *("build", "--network=none", *_LIMITS, f"--volume={wheels}:/wheels:ro"),
        *("--build-arg", f"BASE_IMAGE={BASE}", "--build-arg", "PIP_NO_INDEX=1"),
        *("--build-arg", "PIP_FIND_LINKS=/wheels"),
        *("-f", ROOT / "deploy" / "Dockerfile", "-t", NAME, context),
    )
    return NAME


def test_the_image_is_small_and_runs_as_an_unprivileged_user(podman: Podman, image: str) -> None:
    (image_info,) = json.loads(podman("image", "inspect", image))
    (base,) = json.loads(podman("image", "inspect", BASE))
    assert image_info["Config"]["User"] == "10001:10001"
    assert image_info["Size"] - base["Size"] < 350 * 10**6
    command = ("run", "--rm", "--network=none", *_LIMITS, "--entrypoint=/bin/sh", image)
    assert "uid=10001(potluck)" in podman(
        *command, "-c", "id && ! command -v pip && ! touch /opt/x"
    )


def test_a_server_starts_in_it_without_rights_and_stops(podman: Podman, image: str) -> None:
    """With its own PostgreSQL, on a file system that it cannot change."""
    port = free_port()
    walls = ("--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges")
    server = podman(
        *("run", "--detach", "--network=host", *_LIMITS, *walls, image),
        *("server", "--port", str(port), "--json"),
    ).strip()
    url = f"http://127.0.0.1:{port}/readyz"

    def look() -> bool:
        with suppress(urllib3.exceptions.HTTPError):
            return urllib3.request("GET", url, retries=False, timeout=5).status == 200
        return False

    await_true(look, "the server is ready", 120)
    podman("stop", "--time=60", server)
    assert podman("inspect", server, "--format={{.State.ExitCode}}").strip() == "0"
