"""The embedded PostgreSQL on good days: what it opens, what it keeps, who may come in."""

import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest

from potluck.model.error import StartFailed
from potluck.server.postgres import EmbeddedPostgres, embedded_postgres
from potluck.server.postgres.processes import find_processes
from tests.clusters import CLUSTERS
from tests.ordinary_user import NOBODY, need_ordinary_user
from tests.server.postgres.owner import owner


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    async with embedded_postgres(tmp_path / "postgres") as url:
        yield url


def data_of(directory: Path) -> Path:
    return directory / "cluster" / "data"


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_postgresql_runs_with_durable_settings(url: str) -> None:
    settings = {"synchronous_commit": "on", "fsync": "on", "data_checksums": "on", "jit": "off"}
    settings_now = {name: await ask(url, f"SHOW {name}") for name in settings}
    assert settings_now == settings
    assert await ask(url, "SHOW server_encoding") == "UTF8"
    assert await ask(url, "SELECT upper('é')") == "É"


async def test_files_and_sockets_are_private(url: str, tmp_path: Path) -> None:
    directory = tmp_path / "postgres"
    for path in (directory, directory / "run", directory / "log", data_of(directory)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    password_file = directory / "cluster" / "password"
    assert stat.S_IMODE(password_file.stat().st_mode) == 0o600
    for process in find_processes(data_of(directory)):
        assert not process.net_connections("inet")


async def test_a_password_is_required(url: str, tmp_path: Path) -> None:
    for password in ("", "wrong"):
        without = urlsplit(url)._replace(netloc=f"potluck:{password}@").geturl()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(without, passfile=tmp_path / "no-password-here")


async def test_a_second_start_finds_the_data(tmp_path: Path) -> None:
    async with embedded_postgres(tmp_path) as url:
        await ask(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert not find_processes(data_of(tmp_path))
    async with embedded_postgres(tmp_path) as url:
        assert await ask(url, "SELECT answer FROM kept") == 42


async def test_a_long_path_gets_a_socket_elsewhere(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 25) / 'and "quoted", with commas'
    async with embedded_postgres(directory) as url:
        assert await ask(url, "SELECT 1") == 1
        socket_directory = (directory / "run").readlink()
        assert stat.S_IMODE(socket_directory.stat().st_mode) == 0o700
    assert not socket_directory.exists()


async def test_stop_is_harmless_twice_and_before_a_start(tmp_path: Path) -> None:
    CLUSTERS.copy_to(tmp_path)
    postgres = EmbeddedPostgres(tmp_path)
    await postgres.stop()
    await postgres.start()
    await postgres.stop()
    await postgres.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_can_have_one() -> None:
    need_ordinary_user()
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        with owner(Path(home) / "postgres", uid=NOBODY) as process:
            assert process.stdin and process.stdout
            assert process.stdout.readline().startswith("postgresql://")
            postmaster = find_processes(data_of(Path(home) / "postgres"))[0]
            assert postmaster.uids().effective == NOBODY
            process.stdin.close()
            assert process.wait(30) == 0
        assert not psutil.pid_exists(postmaster.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user needs no unshare")
@pytest.mark.parametrize("unshare", ["missing", "forbidden"])
async def test_root_without_unshare_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unshare: str
) -> None:
    if unshare == "forbidden":
        (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartFailed) as raised:
        await EmbeddedPostgres(tmp_path / "postgres").start()
    assert "--database-url" in raised.value.hint
