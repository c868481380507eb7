"""The last release before this one, run from git with the packages of this environment.

0.1 was never tagged. Its code is that of the last commit before modules were renamed.
"""

import asyncio
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import asyncpg
import pytest

from tests.store.schema_history import FOLDER, ROOT, git, make_old, need_history

RELEASE = "0.1.0"
COMMIT = "a152e7d7"


def extract(directory: Path) -> dict[str, str]:
    """Variables with which `python -m potluck` is that version."""
    need_history()
    git("cat-file", "-e", f"{COMMIT}^{{commit}}")
    archive = subprocess.run(
        ["git", "archive", COMMIT, "src"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode != 0:
        pytest.skip(f"git has no {COMMIT}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(directory)
    return {"PYTHONPATH": str(directory / "src")}


def make_schema(url: str) -> None:
    """What that version makes of an empty database. Its own runner needs Alembic."""
    lines = git("ls-tree", COMMIT, f"{FOLDER}/").splitlines()
    chain = tuple(line.split()[2] for line in lines if line.endswith(".sql"))
    asyncio.run(_make(url, chain))


async def _make(url: str, chain: tuple[str, ...]) -> None:
    connection = await asyncpg.connect(url)
    try:
        assert await make_old(connection, chain) == len(chain)
    finally:
        await connection.close()
