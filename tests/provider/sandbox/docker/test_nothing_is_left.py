"""However a run is cut short, no container, process, mount or directory of it stays."""

import asyncio
from pathlib import Path

import pytest

from potluck.model.task import EndReason
from potluck.provider.sandbox.docker.engine import Engine
from potluck.provider.sandbox.driver import PYTHON
from tests.processes import await_true
from tests.provider.sandbox.conftest import Host, confinement, hosting
from tests.provider.sandbox.docker.engine import Started
from tests.provider.sandbox.host import Request
from tests.provider.sandbox.test_nothing_is_left import FAMILY, ending, is_alive

FAMILY_RUN = confinement(name="attempt_family", command=(PYTHON, "-I", "-c", FAMILY), seconds=60.0)


def test_cancelling_ends_everything(docker: Started) -> None:
    with hosting(True, docker.kind) as host:
        cancel_answer = host.ask(Request(FAMILY_RUN, cancel=True))
        assert cancel_answer.cancelled
        assert _left(docker, host) == ([], [], [])


def test_killing_the_provider_ends_everything_and_the_next_life_removes_the_rest(
    docker: Started,
) -> None:
    _kill_and_reap(docker)


@pytest.mark.long
def test_killing_the_provider_leaves_nothing_in_any_engine(engine: Started) -> None:
    _kill_and_reap(engine)


@pytest.mark.long
def test_reap_leaves_other_nodes_alone(docker: Started) -> None:
    with hosting(True, docker.kind) as host, hosting(True, docker.kind) as other:
        other.ask(Request(FAMILY_RUN, tell=True))
        before = _left(docker, other)
        assert len(before[0]) == 1
        host.reap()
        assert _left(docker, other) == before
        other.process.kill()
        other.process.wait()
        with hosting(True, docker.kind, other.state_directory) as successor:
            successor.reap()


@pytest.mark.long
def test_a_run_takes_the_place_of_what_an_earlier_life_has_left_under_its_name(
    docker: Started,
) -> None:
    with hosting(True, docker.kind) as doomed:
        doomed.ask(Request(FAMILY_RUN, tell=True))
        doomed.process.kill()
        doomed.process.wait()
        with hosting(True, docker.kind, doomed.state_directory) as successor:
            second_run = successor.run(name="attempt_family")
            assert second_run.ended is not None
            assert second_run.ended.reason is EndReason.COMPLETED
            assert _left(docker, successor) == ([], [], [])


def test_no_descriptor_stays(docker: Started) -> None:
    with hosting(True, docker.kind) as host:
        host.run()
        host.reap()  # waits until the disks are gone, and the next ones are ready
        before = _descriptors(host)
        host.run()
        host.run(seconds=0.1, command=("/bin/sleep", "9"))
        host.reap()
        assert _descriptors(host) == before


def _kill_and_reap(engine: Started) -> None:
    with hosting(True, engine.kind) as doomed:
        doomed.ask(Request(FAMILY_RUN, tell=True))
        containers, mounts, directories = _left(engine, doomed)
        # Its disk is mounted in the container only, and vanishes with it.
        assert (len(containers), len(mounts), len(directories)) == (1, 0, 1)
        family = _processes(engine, containers[0])
        assert family
        with ending(family):
            doomed.process.kill()
            doomed.process.wait()
            # Before anybody cleans up: the first process hears that nobody is there any more.
            await_true(lambda: not any(map(is_alive, family)), "its processes end with it")
        with hosting(True, engine.kind, doomed.state_directory) as successor:
            successor.reap()
            assert _left(engine, successor) == ([], [], [])
            second_run = successor.run(name="attempt_family")
            assert second_run.ended is not None
            assert second_run.ended.reason is EndReason.COMPLETED


def _left(engine: Started, host: Host) -> tuple[list[str], list[str], list[Path]]:
    """Containers, mounts and directories of the family's run."""
    containers = asyncio.run(Engine(engine.socket).labelled("potluck.run=attempt_family"))
    place = host.state_directory / "docker"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mounts = [line.split()[4] for line in lines if f" {host.state_directory}/" in line]
    return containers, mounts, list(place.glob("*"))


def _processes(engine: Started, container: str) -> list[int]:
    """All that are in its control group, where there is one for processes."""
    first = asyncio.run(Engine(engine.socket).pid(container))
    own_groups = Path(f"/proc/{first}/cgroup").read_text()
    group = next(
        line.rpartition(":")[2]
        for line in own_groups.splitlines()
        if ":pids:" in line or "0::" in line
    )
    places = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]
    files = [place / group.lstrip("/") / "cgroup.procs" for place in places]
    return [int(pid) for path in files if path.exists() for pid in path.read_text().split()]


def _descriptors(host: Host) -> int:
    return len(list(Path(f"/proc/{host.process.pid}/fd").iterdir()))
