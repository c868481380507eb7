"""kill -9 of a provider at any point: its next life finds nothing left, and the task ends well."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.killable_pool import (
    LASTING,
    OUTPUT_BYTES,
    PASSING,
    Pool,
    files_of,
    opened,
    outboxes,
)
from tests.processes import await_true
from tests.provider.sandbox.docker.engine import ENGINES, starting

POINTS = {**LASTING, **PASSING}
LEAVES = {"collecting", "uploading"}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with opened(tmp_path_factory.mktemp("killed")) as pool:
        yield pool


def test_at_many_points_at_once(pool: Pool) -> None:
    kill_at([*LASTING, "collecting"], pool)


def test_while_a_sandbox_is_set_up(pool: Pool) -> None:
    kill_at(["before the start"], pool)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_at_one_point(pool: Pool, point: str) -> None:
    kill_at([point], pool)


def test_docker(tmp_path: Path) -> None:
    """A container outlives whoever asked for it; here nothing of it does."""
    with starting("docker") as engine, opened(tmp_path, engine) as pool:
        kill_at(["running", "collecting"], pool)


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
def test_every_engine(name: str, tmp_path: Path) -> None:
    """gVisor has no sockets of the host without an option, so nothing is prepared there."""
    moments = [moment for moment in LASTING if (moment, name) != ("preparing", "docker+runsc")]
    with starting(name) as engine, opened(tmp_path, engine) as pool:
        kill_at([*moments, "collecting"], pool)
        kill_at(["before the start"], pool)


def kill_at(points: Iterable[str], pool: Pool) -> None:
    tasks = {point: POINTS[point](pool) for point in points}
    pool.kill()
    if "collecting" in tasks:
        assert len(outboxes(pool, "index")) < len(LEAVES & tasks.keys()), "it was too late"
    await_true(lambda: not pool.survivors(), "all that it had started is dead", 10)
    pool.restart()
    for point, task_id in tasks.items():
        finished = pool.client.finished(task_id)
        assert finished["state"] == "succeeded", finished
        if point in LEAVES:
            assert files_of(pool, task_id) == {"left": OUTPUT_BYTES}
    await_true(lambda: not pool.left(), f"nothing is left of {pool.left()}", 10)
