"""Addresses of PostgreSQL, in the forms of libpq, also for databases that are new."""

import asyncio
import itertools
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest
from msgspec import Struct

from potluck.model.error import BadSettings, Unavailable
from potluck.server.http import authority
from potluck.server.postgres.programs import find_program
from potluck.store.connector import DatabaseConnector
from potluck.store.database import Database
from potluck.store.schema import check_address, migrate
from tests.databases import find_system_postgres, quick_directory, running_postgres
from tests.processes import free_port, potluck

PASSWORD = "p@ss:w/o?r#d%[+ ü&="
WRITTEN = quote(PASSWORD, safe="")
_HBA = """
local all potluck trust
local all all scram-sha-256
hostssl all tls_only all scram-sha-256
hostnossl all plain_only all scram-sha-256
host all anybody all scram-sha-256
"""
_ROLES = ("anybody", "tls_only", "plain_only")


class Reachable(Struct):
    """A PostgreSQL with a port and a socket, and with TLS if its build has it."""

    port: int
    directory: Path  # of its socket
    authority: Path
    has_tls: bool
    admin: str
    migrated: str  # the name of a database
    numbers: Iterator[int]

    def need_tls(self) -> None:
        if not self.has_tls:
            pytest.skip("this PostgreSQL was built without TLS")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Reachable]:
    system = find_system_postgres()
    programs = system or find_program("postgres").parent
    with quick_directory() as directory:
        issued = authority.ensure_certificate(directory / "tls", ["127.0.0.1"])
        trusted = directory / "authority.pem"
        trusted.write_bytes(issued.authority_pem)
        hba = directory / "hba.conf"
        hba.write_text(_HBA)
        settings = {"listen_addresses": "127.0.0.1", "hba_file": str(hba)}
        if system is not None:
            settings |= {"ssl": "on", "ssl_cert_file": str(issued.certificate)}
            settings |= {"ssl_key_file": str(issued.key)}
        port = free_port()
        with running_postgres(programs, directory, port, **settings) as url:
            for role in _ROLES:
                literal = PASSWORD.replace("'", "''")
                run(url, f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{literal}'")
            asyncio.run(migrate(url))
            has_tls = system is not None
            yield Reachable(port, directory, trusted, has_tls, url, "postgres", itertools.count(1))


@pytest.fixture
def new(postgres: Reachable) -> str:
    """The name of a database that has no tables yet."""
    name = f"new_{next(postgres.numbers)}"
    run(postgres.admin, f"CREATE DATABASE {name}")
    return name


def run(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute())


async def use(url: str) -> bool:
    """What a server does at its start. Returns whether the connections are encrypted."""
    await check_address(url)
    await migrate(url)
    database = await Database.connect(url, 2)
    try:
        async with database.statement() as connection:
            assert await connection.fetchval("SELECT count(*) FROM applied_migrations") > 0
            query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            encrypted: bool = await connection.fetchval(query)
            return encrypted
    finally:
        await database.close()


_FORMS = {
    "postgresql": "postgresql://anybody:{password}@127.0.0.1:{port}/{database}",
    "postgres": "postgres://anybody:{password}@127.0.0.1:{port}/{database}",
    "timeout": "postgres://anybody:{password}@127.0.0.1:{port}/{database}?connect_timeout=7",
    "no limit": "postgres://anybody:{password}@127.0.0.1:{port}/{database}?connect_timeout=0",
    "sslmode": "postgresql://anybody:{password}@127.0.0.1:{port}/{database}?sslmode=prefer",
    "port in the query": "postgresql://anybody:{password}@127.0.0.1/{database}?port={port}",
    "all in the query": "postgresql:///?user=anybody&password={password}&dbname={database}"
    "&host=127.0.0.1&port={port}",
    "a server's setting": "postgresql://anybody:{password}@127.0.0.1:{port}/{database}"
    "?application_name=mine&statement_timeout=60000",
    "a dead host first": "postgresql://anybody:{password}@127.0.0.1:{dead},127.0.0.1:{port}/{database}",
    "a dead host first, in the query": "postgresql://anybody:{password}@/{database}"
    "?host=127.0.0.1,127.0.0.1&port={dead},{port}&connect_timeout=5",
    "a socket": "postgresql://anybody:{password}@/{database}?host={directory}&port={port}",
    "a socket as the host": "postgresql://anybody:{password}@{directory}:{port}/{database}",
    "a file of passwords": "postgresql://anybody@127.0.0.1:{port}/{database}?passfile={passfile}",
    "the primary": "postgresql://anybody:{password}@127.0.0.1:{port}/{database}"
    "?target_session_attrs=read-write",
}


_FOR_NEW_DATABASES = ("postgres", "timeout", "sslmode", "a dead host first")


@pytest.mark.parametrize("form", _FORMS)
async def test_every_form_of_an_address_works(
    form: str, postgres: Reachable, tmp_path: Path
) -> None:
    await use_form(form, postgres, postgres.migrated, tmp_path)


@pytest.mark.parametrize("form", _FOR_NEW_DATABASES)
async def test_a_form_of_an_address_works_for_a_new_database(
    form: str, postgres: Reachable, new: str, tmp_path: Path
) -> None:
    await use_form(form, postgres, new, tmp_path)


async def use_form(form: str, postgres: Reachable, database: str, tmp_path: Path) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"127.0.0.1:{postgres.port}:*:anybody:{PASSWORD}\n")
    passfile.chmod(0o600)
    with socket.socket() as dead:  # bound, and nobody listens
        dead.bind(("127.0.0.1", 0))
        url = _FORMS[form].format(
            password=WRITTEN,
            port=postgres.port,
            dead=dead.getsockname()[1],
            directory=quote(str(postgres.directory), safe=""),
            passfile=quote(str(passfile), safe=""),
            database=database,
        )
        await use(url)


async def test_the_password_may_come_from_the_environment(
    postgres: Reachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    await use(f"postgresql://anybody@127.0.0.1:{postgres.port}/{postgres.migrated}")


async def test_a_host_that_is_switched_off_leaves_time_for_the_next(postgres: Reachable) -> None:
    """Its port takes the connection, and never a word is said."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{postgres.port}"
        connector = DatabaseConnector(
            f"postgresql://anybody:{WRITTEN}@{hosts}/{postgres.migrated}?connect_timeout=1"
        )
        await (await connector.connect()).close()
        silent.settimeout(0)
        silent.accept()[0].close()
        # The one that answered is tried first from now on.
        await (await connector.connect()).close()
        with pytest.raises(BlockingIOError):
            silent.accept()


async def test_tls_is_used_as_the_address_says(postgres: Reachable) -> None:
    postgres.need_tls()
    place = f"{WRITTEN}@127.0.0.1:{postgres.port}/{postgres.migrated}"
    trusted = quote(str(postgres.authority), safe="")
    assert await use(f"postgresql://tls_only:{place}?sslmode=require")
    assert await use(f"postgres://anybody:{place}?sslmode=verify-full&sslrootcert={trusted}")
    assert not await use(f"postgresql://plain_only:{place}?sslmode=disable")
    # Both of them tried one after the other.
    assert not await use(f"postgresql://plain_only:{place}?sslmode=prefer")


async def test_tls_that_cannot_be_had_is_a_sentence(postgres: Reachable) -> None:
    postgres.need_tls()
    place = f"{WRITTEN}@127.0.0.1:{postgres.port}/{postgres.migrated}"
    for url, reason in {
        f"postgresql://tls_only:{place}?sslmode=disable": "no encryption",
        f"postgresql://plain_only:{place}?sslmode=require": "SSL encryption",
        f"postgresql://anybody:{place}?sslmode=verify-full&sslrootcert=/nowhere": "No such file",
        f"postgresql://anybody:{place}?sslmode=maybe": "sslmode",
    }.items():
        assert reason in await refusal(url)


async def test_a_server_without_tls_is_not_used_where_it_is_required() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"postgresql://anybody:{WRITTEN}@127.0.0.1:{port}/new?sslmode=require"

        def refuse() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(8)
                peer.sendall(b"N")

        refusing = asyncio.create_task(asyncio.to_thread(refuse))
        assert "rejected SSL upgrade" in await refusal(url)
        await refusing


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://anybody:{PASSWORD}@127.0.0.1:1/db",
        "postgresql://anybody:p@ss:word@127.0.0.1:1/db",
        "postgresql://anybody:12/word@127.0.0.1/db",
        "postgresql://anybody:pa/word@127.0.0.1/db",
        "postgresql://anybody:12#word@127.0.0.1/db",
        "postgresql://anybody:pa?word@127.0.0.1/db",
        "postgresql://anybody:pa[word@127.0.0.1/db",
        "postgresql://anybody:word@127.0.0.1:port/db",
        "postgresql://anybody:word@127.0.0.1:99999/db",
        "postgresql://anybody:word@one,,two/db",
        "postgresql://anybody:word@/db?host=a,b&port=1,2,3",
        "postgresql://anybody:word@127.0.0.1/db?sslmode",
        "postgresql://anybody:word@127.0.0.1/db?connect_timeout=word",
        "mysql://anybody:word@127.0.0.1/db",
        "anybody:word@127.0.0.1",
        "",
    ],
)
async def test_an_address_that_cannot_be_read_is_a_sentence_without_the_password(url: str) -> None:
    sentence = await refusal(url)
    assert "cannot be read" in sentence
    for piece in ("word", "p@ss", PASSWORD, "12"):
        assert piece not in sentence


async def test_an_address_that_is_refused_is_a_sentence_without_the_password(
    postgres: Reachable,
) -> None:
    wrong = f"wrong{WRITTEN}"
    place = f"127.0.0.1:{postgres.port}"
    for url, reason in {
        f"postgresql://anybody:{wrong}@{place}/{postgres.migrated}": "authentication failed",
        f"postgresql://anybody:{WRITTEN}@{place}/nowhere": "does not exist",
        f"postgresql://anybody:{WRITTEN}@{place}/{postgres.migrated}?nonsense=1": "nonsense",
        f"postgresql://anybody:{WRITTEN}@127.0.0.1:1/{postgres.migrated}": "Connect call failed",
        f"postgresql://anybody:{WRITTEN}@nowhere.invalid/{postgres.migrated}": "",
        f"postgresql://anybody:{WRITTEN}@/{postgres.migrated}?host=/nowhere": "No such file",
    }.items():
        sentence = await refusal(url)
        assert reason in sentence
        assert PASSWORD not in sentence and WRITTEN not in sentence


def test_the_password_is_in_no_line_of_a_server_that_does_not_start(
    postgres: Reachable, tmp_path: Path
) -> None:
    url = f"postgresql://nobody:{WRITTEN}@127.0.0.1:{postgres.port}/{postgres.migrated}"
    command = potluck("server", "--port", "0", "--data-dir", tmp_path)
    process = subprocess.run(
        command,
        env={**os.environ, "POTLUCK_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 78
    output = process.stdout + process.stderr
    assert "--database-url" in output
    assert PASSWORD not in output and WRITTEN not in output and "Traceback" not in output


async def refusal(url: str) -> str:
    with pytest.raises((BadSettings, Unavailable)) as raised:
        await check_address(url)
    assert raised.value.__cause__ is None
    return raised.value.detail
