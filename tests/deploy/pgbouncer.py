"""PgBouncer with the configuration of `deploy/`, in front of a PostgreSQL of the tests."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg

from potluck.server.postgres.programs import spawn
from tests.conftest import need
from tests.deploy.shipped_config import adapted
from tests.processes import await_true, free_port

PROGRAM = Path("/usr/sbin/pgbouncer")
PASSWORD = "for PgBouncer"


@contextmanager
def pgbouncer(
    directory: Path, database_url: str, pool_size: int, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Its address, in front of the database."""
    if not PROGRAM.exists():
        need("pgbouncer")
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config, users = directory / "pgbouncer.ini", directory / "userlist.txt"
    config.write_text(
        adapted(
            "pgbouncer/pgbouncer.ini",
            {
                "potluck = host=127.0.0.1 port=5432 dbname=potluck": _database(database_url),
                "listen_addr = 127.0.0.1": f"listen_addr = {host}",
                "listen_port = 6432": f"listen_port = {port}",
                "/etc/pgbouncer/userlist.txt": str(users),
                "default_pool_size = 20": f"default_pool_size = {pool_size}",
            },
        )
    )
    users.write_text(f'"potluck" "{PASSWORD}"\n')
    url = f"postgresql://potluck:{PASSWORD.replace(' ', '%20')}@{host}:{port}/potluck"
    with (directory / "pgbouncer.log").open("ab") as log:
        process = spawn(PROGRAM, [str(config)], log)
    try:
        await_true(lambda: _answers(url, process), "PgBouncer answers")
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _database(url: str) -> str:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    place = {
        "host": query.get("host", parts.hostname or ""),
        "port": query.get("port", str(parts.port or 5432)),
        "dbname": parts.path.removeprefix("/"),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
    }
    options = " ".join(f"{name}='{value}'" for name, value in place.items() if value)
    return f"potluck = {options}"


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    async def connect() -> None:
        await (await asyncpg.connect(url, timeout=5)).close()

    assert process.poll() is None, "PgBouncer ended"
    try:
        asyncio.run(connect())
    except (OSError, asyncpg.PostgresError):
        return False
    return True
