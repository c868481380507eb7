"""However a run is cut short, no process, no control group and no mount of it stays."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from potluck.provider.sandbox.bubblewrap.bwrap import sandbox_name
from potluck.provider.sandbox.driver import PYTHON, Confinement
from tests.processes import await_true
from tests.provider.sandbox.conftest import Host, confinement, groups, hosting, nobody_for
from tests.provider.sandbox.host import Request

FAMILY = """
import os, sys, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
print('CUT', flush=True)
time.sleep(1000)
"""


def test_cancelling_ends_everything(host: Host) -> None:
    request = Request(_family("attempt_cancelled"), cancel=True)
    result = host.ask(request)
    assert result.cancelled
    assert _descendants(host.process.pid) == []
    assert groups(host.state_directory) == []


def test_a_wall_ends_everything(host: Host) -> None:
    host.run(command=("/bin/sh", "-c", "sleep 1000 & sleep 1000"), seconds=0.2, name="attempt_late")
    assert _descendants(host.process.pid) == []
    assert groups(host.state_directory) == []


def test_killing_the_provider_ends_everything_and_reap_removes_the_rest(as_root: bool) -> None:
    with hosting(as_root) as doomed:
        doomed.ask(Request(_family("attempt_orphaned"), tell=True))
        family = _descendants(doomed.process.pid)
        assert len(family) >= 5
        with ending(family):
            doomed.process.kill()
            doomed.process.wait()
            eventually(lambda: not any(is_alive(pid) for pid in family))
        with hosting(as_root, "bwrap", doomed.state_directory) as successor:
            successor.reap()
            assert groups(doomed.state_directory) == []
            second_run = successor.run(name="attempt_orphaned")
            assert second_run.ended is not None
            assert second_run.ended.exit_code == 0


def test_reap_leaves_other_nodes_alone(host: Host, as_root: bool) -> None:
    with hosting(as_root) as other:
        other.ask(Request(_family("attempt_other"), tell=True))
        family = _descendants(other.process.pid)
        before = groups(other.state_directory)
        with ending(family):
            host.reap()
            assert all(is_alive(pid) for pid in family)
            assert groups(other.state_directory) == before


def test_reap_ends_a_sandbox_that_lost_its_provider_half_way(as_root: bool) -> None:
    """A process under the name of this node's sandboxes, as one that was never released."""
    with hosting(as_root) as host:
        name = sandbox_name(host.state_directory, "test")
        nobody_uid = nobody_for(as_root)
        arguments = [name, "1000"]
        stuck = subprocess.Popen(
            arguments, executable="/bin/sleep", user=nobody_uid, group=nobody_uid
        )
        try:
            # The kernel tells the new program's name a moment after it has begun.
            await_true(Path(f"/proc/{stuck.pid}/cmdline").read_bytes, "it has its name")
            host.reap()
            assert stuck.wait(10) == -signal.SIGKILL
        finally:
            stuck.kill()
            stuck.wait()


def test_no_mount_and_no_descriptor_stays(host: Host) -> None:
    host.run()
    host.reap()  # waits until the disks are gone, and the next ones are ready
    mounts = _mounts(host)
    descriptors = _descriptors(host)
    for _ in range(3):
        host.run()
        host.run(seconds=0.01, command=("/bin/sleep", "9"))
    host.reap()
    assert _mounts(host) == mounts
    assert _descriptors(host) == descriptors


@contextmanager
def ending(family: list[int]) -> Iterator[None]:
    """The test's own processes end, whatever it finds out."""
    try:
        yield
    finally:
        for pid in family:
            with suppress(ProcessLookupError):  # it may die with the one before
                os.kill(pid, signal.SIGKILL)


def _family(name: str) -> Confinement:
    return confinement(name=name, command=(PYTHON, "-I", "-c", FAMILY), seconds=60.0)


def _descendants(pid: int) -> list[int]:
    descendants: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            descendants += [child, *_descendants(child)]
    return descendants


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _mounts(host: Host) -> list[str]:
    """All but those that container engines of other tests make below their own directories."""
    own_prefix, temporary = f"{host.state_directory}/", f"{tempfile.gettempdir()}/"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [
        line for line in lines if own_prefix in line or not line.split()[4].startswith(temporary)
    ]


def _descriptors(host: Host) -> int:
    return len(list(Path(f"/proc/{host.process.pid}/fd").iterdir()))


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
