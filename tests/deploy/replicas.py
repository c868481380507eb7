"""A PostgreSQL with a standby that follows it by streaming replication, and may be promoted."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import asyncpg
import psutil

from potluck.server.postgres.programs import spawn
from tests.databases import find_system_postgres, quick_directory
from tests.processes import await_true, free_port

# A crash must not lose what was synced; quick where the disk is memory.
_SETTINGS = {"shared_buffers": "32MB", "max_wal_size": "128MB", "wal_level": "replica"}
STANDBY = "standby"


class ReplicatedPostgres:
    """Both listen on loopback, and one address names both."""

    def __init__(
        self, programs: Path, directory: Path, stack: ExitStack, synchronous: bool
    ) -> None:
        self._programs = programs
        self._directory = directory
        self._stack = stack
        self.ports = (free_port(), free_port())
        self._run("initdb", "-D", str(directory / "primary"), "-U", "potluck", "-A", "trust")
        self._primary = self._start("primary", self.ports[0])
        await_true(lambda: self._query(0, "SELECT true"), "the primary answers")
        connection = f"host=127.0.0.1 port={self.ports[0]} user=potluck application_name={STANDBY}"
        self._run(
            *("pg_basebackup", "-D", str(directory / "standby"), "-d", connection),
            *("-R", "-X", "stream", "-c", "fast"),
        )
        self._start("standby", self.ports[1])
        await_true(lambda: self._query(0, "SELECT count(*) FROM pg_stat_replication"), "it follows")
        if synchronous:
            self._query(0, f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
            self._query(0, "SELECT pg_reload_conf()")
            is_sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            await_true(lambda: self._query(0, is_sync), "commits wait for the standby")

    @property
    def url(self) -> str:
        """For a server, which finds the one that takes writes, whatever the order."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in reversed(self.ports))
        return f"postgresql://potluck@{hosts}/postgres?connect_timeout=2"

    @property
    def standby_url(self) -> str:
        return f"postgresql://potluck@127.0.0.1:{self.ports[1]}/postgres"

    def stop_following(self) -> None:
        """The standby gets nothing more, as if its line were slow."""
        self._query(1, "ALTER SYSTEM SET primary_conninfo = ''")
        self._query(1, "SELECT pg_reload_conf()")
        no_receiver = "SELECT count(*) = 0 FROM pg_stat_wal_receiver"
        await_true(lambda: self._query(1, no_receiver), "it follows no longer")

    def kill_primary(self) -> None:
        """All of it at once, as a power cut does; sessions would outlive it for a moment."""
        self._primary.send_signal(signal.SIGSTOP)
        for process in psutil.Process(self._primary.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._primary.kill()
        self._primary.wait()

    def promote(self) -> None:
        assert self._query(1, "SELECT pg_promote(true, 60)")

    def _query(self, number: int, statement: str) -> object:
        url = f"postgresql://potluck@127.0.0.1:{self.ports[number]}"
        # In a thread: who asks may be in a loop of its own.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(_fetch(url, statement))).result()

    def _start(self, name: str, port: int) -> subprocess.Popen[bytes]:
        place = {
            "listen_addresses": "127.0.0.1",
            "port": str(port),
            "unix_socket_directories": "",
            **_SETTINGS,
        }
        options = [f"--{key}={value}" for key, value in place.items()]
        with (self._directory / f"{name}.log").open("ab") as log:
            data = str(self._directory / name)
            process = spawn(self._programs / "postgres", ["-D", data, *options], log)
        self._stack.callback(process.wait, 60)
        self._stack.callback(process.send_signal, signal.SIGQUIT)
        return process

    def _run(self, program: str, *arguments: str) -> None:
        log = self._directory / f"{program}.log"
        with log.open("wb") as output:
            status = spawn(self._programs / program, list(arguments), output).wait(120)
        assert status == 0, log.read_text()


async def _fetch(url: str, statement: str) -> object:
    try:
        connection = await asyncpg.connect(f"{url}/postgres", timeout=5)
    except (OSError, asyncpg.PostgresError):
        return None
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@contextmanager
def replicated_postgres(synchronous: bool) -> Iterator[ReplicatedPostgres]:
    programs = find_system_postgres()
    assert programs is not None, "Debian's PostgreSQL is missing; see scripts/test-needs.sh"
    with quick_directory() as directory, ExitStack() as stack:
        yield ReplicatedPostgres(programs, directory, stack, synchronous)
