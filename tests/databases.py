"""PostgreSQL for tests: a server for each test process, a fresh migrated database for each test."""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psutil

from potluck.server.postgres import EmbeddedPostgres
from potluck.server.postgres.programs import spawn
from potluck.store.schema import migrate

_TEMPLATE = "migrated"
# Tests that are about durability start a PostgreSQL of their own.
_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_wal_size": "128MB",
}
# A database is hundreds of files, which cost a fifth where they never go to a disk.
_IN_MEMORY = Path("/dev/shm")
_PREFIX = "potluck-test-"
_ROOM_BYTES = 2 * 2**30


class Databases:
    """Makes databases as copies of one that was migrated once."""

    def __init__(self, server_url: str):
        self.server_url = server_url
        self._numbers = itertools.count(1)
        asyncio.run(self._execute(f"CREATE DATABASE {_TEMPLATE}"))
        asyncio.run(migrate(self._url(_TEMPLATE)))

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """The address of a database that nobody else uses and that ends with the block."""
        with self._copied(_TEMPLATE) as url:
            yield url

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The same without any tables."""
        with self._copied("template0") as url:
            yield url

    @contextmanager
    def _copied(self, template: str) -> Iterator[str]:
        name = f"test_{next(self._numbers)}"
        # As files: through the write-ahead log a copy takes five times the work.
        copy = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
        asyncio.run(self._execute(copy))
        try:
            yield self._url(name)
        finally:
            asyncio.run(self._execute(f"DROP DATABASE {name} WITH (FORCE)"))

    def _url(self, name: str) -> str:
        return urlsplit(self.server_url)._replace(path=f"/{name}").geturl()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.server_url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def quick_directory() -> Iterator[Path]:
    """For the length of a block; in memory, if there is room."""
    in_memory = os.access(_IN_MEMORY, os.W_OK)
    has_room = in_memory and shutil.disk_usage(_IN_MEMORY).free > _ROOM_BYTES
    parent = _IN_MEMORY if has_room else None
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent) as directory:
        yield Path(directory)


def remove_what_the_dead_left(parent: Path = _IN_MEMORY) -> None:
    """Of sessions that were killed: nobody else would give the memory back."""
    for leftover in parent.glob(f"{_PREFIX}*-*"):
        pid = leftover.name.removeprefix(_PREFIX).split("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def embedded_databases() -> Iterator[Databases]:
    with quick_directory() as directory:
        postgres = EmbeddedPostgres(directory / "postgres", settings=_FAST)
        url = asyncio.run(postgres.start())
        try:
            yield Databases(url)
        finally:
            asyncio.run(postgres.stop())


class SharedDatabases:
    """Those of the embedded PostgreSQL that this test process shares, started by who asks first."""

    def __init__(self) -> None:
        # PostgreSQL ends with the thread that started it, and who asks may be in a loop of its own.
        self._thread = ThreadPoolExecutor(1)
        self._stack = ExitStack()
        self._made: Databases | None = None
        self._by_directory: dict[Path, str] = {}

    def get(self) -> Databases:
        return self._thread.submit(self._get).result()

    def of(self, directory: Path) -> str:
        """The address of a database of its own for this directory, always the same one."""
        return self._thread.submit(self._of, directory).result()

    def close(self) -> None:
        self._thread.submit(self._stack.close).result()
        self._thread.shutdown()

    def _get(self) -> Databases:
        if self._made is None:
            self._made = self._stack.enter_context(embedded_databases())
        return self._made

    def _of(self, directory: Path) -> str:
        if directory not in self._by_directory:
            fresh = self._get().fresh()
            self._by_directory[directory] = self._stack.enter_context(fresh)
        return self._by_directory[directory]


SHARED = SharedDatabases()


def find_system_postgres() -> Path | None:
    """The programs of Debian's PostgreSQL, the oldest one that we support if there are several."""
    programs = {
        int(path.parent.name): path for path in Path("/usr/lib/postgresql").glob("[0-9]*/bin")
    }
    supported = [version for version in programs if version >= 15]
    return programs[min(supported)] if supported else None


@contextmanager
def system_databases(programs: Path) -> Iterator[Databases]:
    with quick_directory() as directory, running_postgres(programs, directory, 5432) as url:
        yield Databases(url)


@contextmanager
def running_postgres(programs: Path, directory: Path, port: int, **settings: str) -> Iterator[str]:
    """The address of its socket, where no password is needed."""
    process = _start_postgres(programs, directory, {"port": str(port), **settings})
    try:
        url = f"postgresql://potluck@/postgres?host={directory}&port={port}"
        _await_ready(url, process)
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _start_postgres(
    programs: Path, directory: Path, given_settings: dict[str, str]
) -> subprocess.Popen[bytes]:
    data = directory / "data"
    with (directory / "log").open("wb") as log:
        init_process = spawn(
            programs / "initdb", ["-D", str(data), "-U", "potluck", "-A", "trust"], log
        )
        assert init_process.wait(60) == 0, (directory / "log").read_text()
        private = {"listen_addresses": "", "unix_socket_directories": str(directory)}
        settings = {**_FAST, **private, **given_settings}
        options = [f"--{name}={value}" for name, value in settings.items()]
        return spawn(programs / "postgres", ["-D", str(data), *options], log)


def _await_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not asyncio.run(_connects(url)):
        assert process.poll() is None and time.monotonic() < deadline, "PostgreSQL did not start"
        time.sleep(0.02)


async def _connects(url: str) -> bool:
    try:
        await (await asyncpg.connect(url)).close()
    except (OSError, asyncpg.PostgresError):
        return False
    return True
