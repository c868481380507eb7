"""Hosts of the sandbox as root and as an ordinary user, one of each for a test process."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.node import SandboxReport
from potluck.model.task import MIB
from potluck.provider.sandbox.bubblewrap.bwrap import sandbox_name
from potluck.provider.sandbox.docker.work_directory import CONTAINER_DISKS, remove_run_directory
from potluck.provider.sandbox.driver import PYTHON, Confinement
from potluck.provider.sandbox.hierarchy import find_hierarchy
from potluck.provider.sandbox.work_disk import DISKS, remove_leftovers
from tests.control_groups import remove_groups
from tests.ordinary_user import NOBODY, need_ordinary_user
from tests.provider.sandbox.host import Answer, Request, decode, encode

REPOSITORY = Path(__file__).parents[3]
# A Python that is not below /usr is shown to every run at /opt/python.
PYTHON_IS_MOUNTED = not Path(sys.base_prefix).resolve().is_relative_to("/usr")
SECRET = "swordfish-of-the-host"


class Host:
    """A process with a driver in it."""

    def __init__(self, process: subprocess.Popen[bytes], state_directory: Path) -> None:
        self.process = process
        self.state_directory = state_directory
        self.report = msgspec.json.decode(self._line(), type=SandboxReport)

    def python(self, source: str, **changes: object) -> Answer:
        """Runs Python source inside."""
        return self.run(command=(PYTHON, "-I", "-c", source), **changes)

    def run(self, **changes: object) -> Answer:
        return self.ask(Request(confinement(**changes)))

    def reap(self) -> None:
        self.ask(Request())

    def ask(self, request: Request) -> Answer:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(request) + b"\n")
        self.process.stdin.flush()
        return decode(self._line(), Answer)

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the host process died"
        return line


def confinement(**changes: object) -> Confinement:
    modest = Confinement(
        name="attempt_test",
        command=("/bin/true",),
        memory_bytes=128 * MIB,
        disk_bytes=16 * MIB,
        processes=32,
        cores=1,
        seconds=20.0,
    )
    return replace(modest, **changes)


@contextmanager
def hosting(
    as_root: bool,
    kind: str = "bwrap",
    state_directory: Path | None = None,
    *,
    prefix: Path | None = None,
    path: str = os.environ["PATH"],
    wrapper: Sequence[str] = (),
    groups: Sequence[int] = (),
) -> Iterator[Host]:
    """Everything it starts dies with it; what the kernel keeps is removed by `reap`."""
    if not as_root:
        need_ordinary_user()
    directory = state_directory or Path(tempfile.mkdtemp(prefix="potluck-sandbox-"))
    nobody_uid = nobody_for(as_root)
    if nobody_uid is not None:
        os.chown(directory, nobody_uid, nobody_uid)
    command = [sys.executable, "-m", "tests.provider.sandbox.host", kind, str(directory)]
    process = subprocess.Popen(
        [*wrapper, *command, *([str(prefix)] if prefix else [])],
        cwd=REPOSITORY,
        env={"PATH": path, "HOST_SECRET": SECRET, "PYTHONPATH": "src"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=nobody_uid,
        group=nobody_uid,
        extra_groups=None if nobody_uid is None else list(groups),
    )
    try:
        yield Host(process, directory)
    finally:
        process.kill()
        process.communicate()
        if state_directory is None:
            remove_groups(directory, "test")  # of a test that failed in the middle of a run
            for leftover in directory.glob("docker/*"):
                remove_run_directory(leftover)
            for disks in (DISKS, CONTAINER_DISKS):
                remove_leftovers(directory / disks)
            shutil.rmtree(directory, ignore_errors=True)


def groups(state_directory: Path) -> list[Path]:
    """The control groups of a host's runs."""
    hierarchy = find_hierarchy(f"{sandbox_name(state_directory, 'test')}-")
    if hierarchy is None:
        return []
    return [
        parent / f"{hierarchy.prefix}{name}"
        for parent in hierarchy.parents.values()
        for name in hierarchy.leftovers()
    ]


def nobody_for(as_root: bool) -> int | None:
    """The ordinary user to become, when the tests run as root and should not."""
    return NOBODY if os.geteuid() == 0 and not as_root else None


def skip_unless_possible(as_root: bool) -> None:
    if as_root and os.geteuid() != 0:
        pytest.skip("these tests run as an ordinary user")
    if not as_root:
        need_ordinary_user()


@pytest.fixture(scope="session", params=[True, False], ids=["root", "user"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    skip_unless_possible(request.param)
    with hosting(request.param) as host:
        yield host


@pytest.fixture(params=[True, False], ids=["root", "user"])
def as_root(request: pytest.FixtureRequest) -> bool:
    """For tests that start hosts of their own."""
    skip_unless_possible(request.param)
    return bool(request.param)


@pytest.fixture
def is_root(host: Host) -> bool:
    return host.report.user == "own uid"


@pytest.fixture(
    scope="module",
    params=[("bwrap", True), ("bwrap", False), ("none", os.geteuid() == 0)],
    ids=["bwrap-root", "bwrap-user", "none"],
)
def any_host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Bubblewrap as root and as an ordinary user, and no sandbox at all."""
    kind, as_root = request.param
    skip_unless_possible(as_root)
    with hosting(as_root, kind) as host:
        yield host
