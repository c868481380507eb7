"""The embedded PostgreSQL on bad days: killed, half made, haunted by what came before."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from potluck.model.error import StartFailed
from potluck.server.postgres import EmbeddedPostgres, StartTimeouts, embedded_postgres
from potluck.server.postgres.processes import find_processes
from tests.clusters import CLUSTERS
from tests.server.postgres.owner import owner
from tests.server.postgres.test_embedded import ask, data_of


def await_condition(condition: Callable[[], object], description: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {description}"
        time.sleep(0.01)


def is_alive(process: psutil.Process) -> bool:
    """One that has ended, and that nobody has asked about yet, is not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def make_cluster(directory: Path) -> None:
    """Copied, since most tests here are about one that is whole."""
    CLUSTERS.copy_to(directory)
    await put_data(directory)


async def put_data(directory: Path) -> None:
    async with embedded_postgres(directory) as url:
        await ask(url, "CREATE TABLE kept AS SELECT 42 AS answer")


async def assert_data_is_kept(directory: Path) -> None:
    async with embedded_postgres(directory) as url:
        assert await ask(url, "SELECT answer FROM kept") == 42


async def test_a_killed_postmaster_recovers(tmp_path: Path) -> None:
    CLUSTERS.copy_to(tmp_path)
    postgres = EmbeddedPostgres(tmp_path)
    url = await postgres.start()
    await ask(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    # It stays a zombie of this process until `stop`: its pid is taken, yet nobody is there.
    find_processes(data_of(tmp_path))[0].kill()
    await assert_data_is_kept(tmp_path)
    await postgres.stop()


async def test_postgres_ends_with_a_killed_owner(tmp_path: Path) -> None:
    await make_cluster(tmp_path)
    with owner(tmp_path) as process:
        assert process.stdout and process.stdout.readline()
        processes = find_processes(data_of(tmp_path))
        assert processes
        process.kill()
        await_condition(lambda: not any(map(is_alive, processes)), "PostgreSQL to end")
    await assert_data_is_kept(tmp_path)


async def test_a_postmaster_that_was_left_behind_is_ended(tmp_path: Path) -> None:
    await make_cluster(tmp_path)
    with owner(tmp_path) as process:
        assert process.stdout and process.stdout.readline()
        left_behind = find_processes(data_of(tmp_path))[0]
        process.send_signal(signal.SIGSTOP)  # it neither ends nor looks after its child
        await assert_data_is_kept(tmp_path)
        assert left_behind.status() == psutil.STATUS_ZOMBIE


async def test_a_pid_that_was_reused_does_not_matter(tmp_path: Path) -> None:
    await make_cluster(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            pid_file = data_of(tmp_path) / "postmaster.pid"
            pid_file.write_text(f"{stranger.pid}\n{data_of(tmp_path)}\n1\n5432\n\n\n")
            await assert_data_is_kept(tmp_path)
            assert stranger.poll() is None, "a stranger was ended"
        finally:
            stranger.kill()


async def test_a_garbled_pid_file_does_not_matter(tmp_path: Path) -> None:
    await make_cluster(tmp_path)
    (data_of(tmp_path) / "postmaster.pid").write_text("")
    await assert_data_is_kept(tmp_path)


async def test_a_half_made_cluster_is_made_anew(tmp_path: Path) -> None:
    with owner(tmp_path) as process:
        await_condition(lambda: [*tmp_path.glob("cluster.new-*/data/base")], "initdb to begin")
        process.kill()
    assert not (tmp_path / "cluster").exists()
    await put_data(tmp_path)
    await assert_data_is_kept(tmp_path)
    assert not [*tmp_path.glob("cluster.new-*")]


@pytest.mark.parametrize("reached", ["cluster.new-*/data/base", "cluster/data/postmaster.pid"])
async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path, reached: str) -> None:
    starting = asyncio.create_task(EmbeddedPostgres(tmp_path).start())
    while not [*tmp_path.glob(reached)]:
        assert not starting.done(), "it was ready before it could be cancelled"
        await asyncio.sleep(0.001)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not find_processes(data_of(tmp_path))
    await put_data(tmp_path)


async def test_a_database_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    CLUSTERS.copy_to(tmp_path)
    postgres = EmbeddedPostgres(
        tmp_path, StartTimeouts(fast_stop_seconds=0.1, immediate_stop_seconds=1)
    )
    await postgres.start()
    find_processes(data_of(tmp_path))[0].suspend()
    await postgres.stop()
    assert not find_processes(data_of(tmp_path))


async def test_a_broken_cluster_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    CLUSTERS.copy_to(tmp_path)
    os.truncate(data_of(tmp_path) / "global" / "pg_control", 0)
    with pytest.raises(StartFailed, match="pg_control"):
        await EmbeddedPostgres(tmp_path).start()
    assert not find_processes(data_of(tmp_path))


async def test_another_version_s_cluster_is_not_touched(tmp_path: Path) -> None:
    CLUSTERS.copy_to(tmp_path)
    (data_of(tmp_path) / "PG_VERSION").write_text("17\n")
    with pytest.raises(StartFailed, match="17"):
        await EmbeddedPostgres(tmp_path).start()


async def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    CLUSTERS.copy_to(tmp_path)
    with pytest.raises(StartFailed, match="in time"):
        await EmbeddedPostgres(tmp_path, StartTimeouts(start_seconds=0)).start()
    assert not find_processes(data_of(tmp_path))
