"""The databases that other tests are given."""

import os
import subprocess
from pathlib import Path

import asyncpg

from tests.databases import remove_what_the_dead_left


async def server_version(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SHOW server_version_num")) // 10_000
    finally:
        await connection.close()


async def put_a_table(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE only_here ()")  # fails if it is there already
    finally:
        await connection.close()


async def test_each_test_gets_an_empty_database(database_url: str) -> None:
    await put_a_table(database_url)


async def test_and_so_does_the_next(database_url: str) -> None:
    await put_a_table(database_url)


def test_also_a_test_without_a_loop(database_url: str) -> None:
    assert database_url.startswith("postgresql://")


async def test_the_embedded_one_is_18(database_url: str) -> None:
    assert await server_version(database_url) == 18


async def test_the_system_one_is_older_but_supported(debian_postgres_url: str) -> None:
    assert 15 <= await server_version(debian_postgres_url) <= 18


def test_only_remains_of_a_killed_session_are_removed(tmp_path: Path) -> None:
    ended_process = subprocess.Popen(["true"])
    ended_process.wait()
    names = [
        f"potluck-test-{ended_process.pid}-left",
        f"potluck-test-{os.getpid()}-in_use",
        "of-others",
    ]
    for name in names:
        (tmp_path / name / "postgres").mkdir(parents=True)
    remove_what_the_dead_left(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])
