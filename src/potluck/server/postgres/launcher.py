"""Starts PostgreSQL on a cluster, waits until it is ready, and stops it."""

import asyncio
import re
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

import asyncpg
import psutil
import structlog
from msgspec import Struct

from potluck.model.error import StartFailed
from potluck.server.postgres.cluster import USER, Cluster, open_cluster
from potluck.server.postgres.processes import find_processes, shut_down
from potluck.server.postgres.programs import find_program, spawn
from potluck.server.postgres.socket_directory import make_socket_directory, remove_socket_directory

_POLL_SECONDS = 0.02
_REMIND_SECONDS = 10.0
_CAUSE = re.compile(r"(?:FATAL|PANIC): *(.+)")

_SETTINGS = MappingProxyType(
    {
        # Reachable through the socket only.
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        # Acknowledged commits are on disk.
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "on",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "wal_compression": "on",
        "jit": "off",
        "timezone": "UTC",
        # One file per weekday, overwritten a week later. The server logs failed statements itself,
        # without their values; here they would only fill the disk.
        "logging_collector": "on",
        "log_filename": "postgres-%a.log",
        "log_truncate_on_rotation": "on",
        "log_rotation_age": "1d",
        "log_rotation_size": "0",
        "log_timezone": "UTC",
        "log_min_messages": "log",
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "log_checkpoints": "off",
    }
)

log = structlog.get_logger()


class StartTimeouts(Struct, frozen=True):
    """Timeouts. Crash recovery after many writes takes minutes on a slow disk."""

    start_seconds: float = 600.0
    fast_stop_seconds: float = 30.0
    immediate_stop_seconds: float = 10.0
    watch_seconds: float = 0.5


class EmbeddedPostgres:
    """One PostgreSQL in one directory, which the caller has locked. It can be restarted."""

    def __init__(
        self,
        directory: Path,
        patience: StartTimeouts = StartTimeouts(),  # noqa: B008 (frozen)
        settings: Mapping[str, str] = MappingProxyType({}),
    ):
        self._directory = directory.absolute()
        self._patience = patience
        self._settings = {**_SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._place: tuple[Cluster, Path] | None = None

    async def start(self) -> str:
        """Returns the URL to connect to. It contains the password: do not log it."""
        assert self._process is None, "already started"
        try:
            cluster = await self._prepare()
            socket_directory = make_socket_directory(self._directory)
        except OSError as error:
            raise StartFailed(
                f"Cannot prepare PostgreSQL's directory: {error}.",
                f"Make sure that you own {self._directory} and its disk has space.",
            ) from error
        self._place = (cluster, socket_directory)
        try:
            return await self._launch()
        except BaseException:
            await self.stop()
            raise

    async def _launch(self) -> str:
        assert self._place is not None, "prepared before"
        self._process = self._spawn(*self._place)
        url = _url(*self._place)
        await self._answers(url, self._process)
        return url

    async def keep_running(self) -> None:
        """Restarts PostgreSQL when it ends unexpectedly; its URL stays the same."""
        while True:
            await asyncio.sleep(self._patience.watch_seconds)
            if self._process is not None and self._process.poll() is not None:
                log.error("PostgreSQL ended unexpectedly; restarting it")
                await self._revive()

    async def _revive(self) -> None:
        assert self._place is not None, "it was started"
        try:
            await self._end_leftovers(self._place[0])
            await self._launch()
        except StartFailed as error:
            log.error("PostgreSQL did not restart", detail=error.detail)

    async def stop(self) -> None:
        """Ends PostgreSQL and waits until it is gone; safe to call when it is not running."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            await self._shut_down([psutil.Process(process.pid)])
            process.wait()
        remove_socket_directory(self._directory)

    async def _prepare(self) -> Cluster:
        for directory in (self._directory, self._log_directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
        cluster = await open_cluster(self._directory)
        await self._end_leftovers(cluster)
        return cluster

    async def _end_leftovers(self, cluster: Cluster) -> None:
        leftovers = find_processes(cluster.data)
        if leftovers:
            log.warning(
                "ending a PostgreSQL left over from an earlier server", pid=leftovers[0].pid
            )
            await self._shut_down(leftovers)
        _forget_stale_pid(cluster.data / "postmaster.pid")

    async def _shut_down(self, processes: list[psutil.Process]) -> None:
        patience = self._patience
        await shut_down(processes, patience.fast_stop_seconds, patience.immediate_stop_seconds)

    def _spawn(self, cluster: Cluster, socket_directory: Path) -> subprocess.Popen[bytes]:
        quoted = str(socket_directory).replace('"', '""')
        settings = {
            **self._settings,
            "unix_socket_directories": f'"{quoted}"',
            "log_directory": str(self._log_directory),
        }
        arguments = ["-D", str(cluster.data)]
        for name, value in settings.items():
            arguments += ["-c", f"{name}={value}"]
        with (self._log_directory / "start.log").open("wb") as output:
            return spawn(find_program("postgres"), arguments, output)

    async def _answers(self, url: str, process: subprocess.Popen[bytes]) -> None:
        started = time.monotonic()
        reminder = started + _REMIND_SECONDS
        while not await _connects(url):
            if process.poll() is not None:
                raise self._failed(f"PostgreSQL ended: {self._last_words()}")
            now = time.monotonic()
            if now > started + self._patience.start_seconds:
                raise self._failed("PostgreSQL did not become ready in time.")
            if now > reminder:
                log.info("PostgreSQL is still recovering", seconds=round(now - started))
                reminder = now + _REMIND_SECONDS
            await asyncio.sleep(_POLL_SECONDS)

    def _failed(self, detail: str) -> StartFailed:
        return StartFailed(
            detail, f"See the files in {self._log_directory}, fix the cause and start again."
        )

    def _last_words(self) -> str:
        written = sorted(self._log_directory.glob("*.log"), key=lambda file: file.stat().st_mtime)
        for file in reversed(written):
            if causes := _CAUSE.findall(file.read_text(errors="replace")):
                return str(causes[-1])
        return "it gave no reason."

    @property
    def _log_directory(self) -> Path:
        return self._directory / "log"


@asynccontextmanager
async def embedded_postgres(directory: Path) -> AsyncIterator[str]:
    """Runs PostgreSQL for the duration of a block, and restarts it. Yields its URL."""
    postgres = EmbeddedPostgres(directory)
    url = await postgres.start()
    watch = asyncio.create_task(postgres.keep_running())
    try:
        yield url
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await postgres.stop()


def running_url(directory: Path) -> str:
    """The URL of the PostgreSQL that another process runs in this directory."""
    try:
        return _url(Cluster(directory / "cluster"), (directory / "run").resolve(strict=True))
    except OSError as error:
        raise StartFailed(
            f"There is no running PostgreSQL in {directory}: {error.strerror}.",
            "Wait until the server is ready, or stop it.",
        ) from error


def _url(cluster: Cluster, socket_directory: Path) -> str:
    password, host = quote(cluster.password(), safe=""), quote(str(socket_directory), safe="")
    return f"postgresql://{USER}:{password}@/postgres?host={host}"


async def _connects(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url, timeout=5)
    except asyncpg.InvalidPasswordError as error:
        raise StartFailed(
            "PostgreSQL does not accept the password that is stored with its data.",
            "Restore the whole `cluster` directory, password and data together, from one backup.",
        ) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False  # not listening yet, or recovering
    await connection.close()
    return True


def _forget_stale_pid(pid_file: Path) -> None:
    """PostgreSQL trusts a pid file whose pid is in use, even by another program or a zombie.

    Nothing runs on this cluster, so such a file is stale, and so is an empty one from a crash. One
    with an unused pid stays: PostgreSQL handles it, and also checks for shared memory in use.
    """
    with suppress(FileNotFoundError):
        lines = pid_file.read_text().splitlines()
        if not lines or not lines[0].isdigit() or psutil.pid_exists(int(lines[0])):
            pid_file.unlink()
