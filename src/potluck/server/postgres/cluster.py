"""A cluster on disk: PostgreSQL's data directory and its password, created atomically.

Both are built under a temporary name and renamed when they are complete and synced, so that a crash
leaves no incomplete cluster.
"""

import asyncio
import secrets
import shutil
import tempfile
from pathlib import Path

from potluck.local.durable_files import sync, write_new
from potluck.model.error import StartFailed
from potluck.server.postgres.programs import find_program, spawn

USER = "potluck"
MAJOR_VERSION = "18"
_UNFINISHED = "cluster.new-"


class Cluster:
    """The paths below the cluster's directory."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.data = directory / "data"
        self.password_file = directory / "password"

    def password(self) -> str:
        return self.password_file.read_text().strip()


async def open_cluster(directory: Path) -> Cluster:
    """Opens the cluster of this directory, or creates it."""
    cluster = Cluster(directory / "cluster")
    for unfinished in directory.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(unfinished, ignore_errors=True)
    if not cluster.directory.exists():
        # A unique name: the initdb of a killed server may still be removing an earlier one.
        await _make(cluster, Cluster(Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=directory))))
    _check_version(cluster)
    return cluster


async def _make(cluster: Cluster, unfinished: Cluster) -> None:
    write_new(unfinished.password_file, f"{secrets.token_urlsafe(32)}\n".encode())
    await _run_initdb(unfinished)
    sync(unfinished.directory)
    unfinished.directory.rename(cluster.directory)
    sync(cluster.directory.parent)


async def _run_initdb(cluster: Cluster) -> None:
    output = cluster.directory / "initdb.log"
    with output.open("wb") as log:
        process = spawn(find_program("initdb"), _initdb_arguments(cluster), log)
        try:
            status = await asyncio.to_thread(process.wait)
        finally:
            process.kill()
            process.wait()
    if status != 0:
        raise StartFailed(
            f"PostgreSQL could not create its cluster: {_last_line(output)}",
            f"See {output}; fix the cause and start again, or use --database-url.",
        )


def _initdb_arguments(cluster: Cluster) -> list[str]:
    return [
        f"--pgdata={cluster.data}",
        f"--username={USER}",
        f"--pwfile={cluster.password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        # The built-in locale sorts by code point and supports Unicode, equally on every system.
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--no-instructions",
    ]


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1].strip() if lines else "no output"


def _check_version(cluster: Cluster) -> None:
    version = (cluster.data / "PG_VERSION").read_text().strip()
    if version != MAJOR_VERSION:
        raise StartFailed(
            f"{cluster.data} was written by PostgreSQL {version}; this is {MAJOR_VERSION}.",
            "Migrate the data with pg_upgrade or pg_dump, or run your own"
            f" PostgreSQL {version} on it with --database-url.",
        )
