"""The driver "none" keeps the owner's tasks in order, and does not pretend to more."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from potluck.model.task import MIB, EndReason
from potluck.provider.sandbox import plain_directory, unconfined_run
from potluck.provider.sandbox.driver import PYTHON, Mount
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from tests.provider.sandbox.conftest import SECRET, Host, confinement, hosting
from tests.provider.sandbox.host import Request
from tests.provider.sandbox.test_limit_reasons import EATS_MEMORY
from tests.provider.sandbox.test_nothing_is_left import FAMILY, eventually, is_alive

FORKS_SLEEPERS = "import os, time\nfor _ in range(40): os.fork() or time.sleep(60)\ntime.sleep(60)"
FILLS_DISK_SLOWLY = "import time\nfor n in range(64): open(str(n), 'wb').write(bytes(1 << 20))\n"


@pytest.fixture(scope="module")
def open_host() -> Iterator[Host]:
    with hosting(os.geteuid() == 0, "none") as host:
        yield host


async def test_removing_leftovers_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed_by: dict[str, threading.Thread] = {}

    def remove(directory: Path) -> None:
        removed_by[directory.name] = threading.current_thread()
        plain_directory.remove_tree(directory)

    async def ignored(stream: str, data: bytes) -> None: ...

    monkeypatch.setattr(unconfined_run, "remove_tree", remove)
    driver = UnconfinedDriver(tmp_path, "test")
    await driver.run(confinement(), ignored)
    (tmp_path / "unconfined" / "left").mkdir()
    await driver.reap()
    assert len(removed_by) == 2 and threading.main_thread() not in removed_by.values()
    assert not [*(tmp_path / "unconfined").iterdir()]


def test_the_report_claims_nothing(open_host: Host) -> None:
    report = open_host.report
    assert not report.is_safe_for_strangers
    assert {report.network, report.syscalls, report.user, report.cpu} == {"none"}


def test_a_run_has_its_own_directory_and_a_clean_environment(open_host: Host) -> None:
    result = open_host.run(
        command=(PYTHON, "-I", "/work/a.py", "/environment/x"),
        files={"a.py": b"import os, sys; print(os.getcwd(), sys.argv[1], dict(os.environ))"},
        mounts=(Mount(Path("/somewhere"), "/environment"),),
        environment={"MINE": "/work/y"},
    )
    output = result.stdout.decode()
    work = output.split()[0]
    assert work.startswith(str(open_host.state_directory))
    assert output.split()[1] == "/somewhere/x"
    assert f"'MINE': '{work}/y'" in output
    assert SECRET not in output
    assert not Path(work).exists()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise SystemExit(3)", EndReason.EXIT_STATUS),
        ("import os; os.abort()", EndReason.SIGNAL),
        (EATS_MEMORY, EndReason.MEMORY_LIMIT),
        (FORKS_SLEEPERS, EndReason.PROCESS_LIMIT),
        (FILLS_DISK_SLOWLY + "time.sleep(60)", EndReason.DISK_LIMIT),
        ("import time; time.sleep(60)", EndReason.TIME_LIMIT),
    ],
)
def test_ends_have_the_same_reasons(open_host: Host, source: str, expected: EndReason) -> None:
    outcome = open_host.python(source, seconds=2.0, memory_bytes=64 * MIB).ended
    assert outcome is not None
    assert outcome.reason is expected, outcome


def test_background_processes_end_with_the_run(open_host: Host) -> None:
    result = open_host.run(command=("/bin/sh", "-c", "sleep 1000 & echo $!"))
    eventually(lambda: not is_alive(int(result.stdout)))


def test_a_killed_provider_leaves_a_family_and_reap_ends_it() -> None:
    as_root = os.geteuid() == 0
    with hosting(as_root, "none") as doomed:
        source = FAMILY.replace("'CUT'", "os.getpid(), 'CUT'").replace("os.setsid()", "0")
        family = confinement(command=(PYTHON, "-I", "-c", source))
        leader = int(doomed.ask(Request(family, tell=True)).stdout.split()[0])
        try:
            doomed.process.kill()
            doomed.process.wait()
            assert is_alive(leader)
            with hosting(as_root, "none", doomed.state_directory) as successor:
                successor.reap()
                eventually(lambda: not is_alive(leader))
                assert list((doomed.state_directory / "unconfined").iterdir()) == []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(leader, signal.SIGKILL)


def test_without_mounts_an_empty_environment_hides_the_packages_of_the_system(
    open_host: Host,
) -> None:
    program = "import site, os; print([p for p in site.getsitepackages() if os.path.isdir(p)])"
    assert open_host.run(command=(PYTHON, "-c", program)).stdout == b"[]\n"
    result = open_host.run(
        command=(PYTHON, "-c", "import sys; print(sys.prefix)"), shows_packages=True
    )
    assert result.stdout.decode().strip() == sys.base_prefix
