"""Databases as earlier commits made them, by the migrations of those commits, read from git."""

import random
import subprocess
from functools import cache
from pathlib import Path

import asyncpg
import pytest

from potluck.store import schema

Chain = tuple[str, ...]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "src/potluck/store/migrations/versions"
_APPLIED = "CREATE TABLE schema_version (version_num varchar(32) NOT NULL,"
_VERSION = f"{_APPLIED} CONSTRAINT schema_version_pkc PRIMARY KEY (version_num))"
# Everything that a statement could notice; the order of columns is none of it.
_CATALOGUE = """
SELECT format('column %s.%s %s %s %s %s %s %s %s', relname, attname,
    format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), attgenerated,
    attidentity, attstorage, attcollation::regcollation)
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v')
    AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT format('constraint %s %s %s', conrelid::regclass, conname,
    pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT format('index %s %s', indisvalid, pg_get_indexdef(indexrelid)) FROM pg_index
    JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT format('function %s', pg_get_functiondef(oid)) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT format('trigger %s %s', tgenabled, pg_get_triggerdef(pg_trigger.oid))
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE relnamespace = 'public'::regnamespace AND NOT tgisinternal
UNION ALL SELECT format('view %s %s', viewname, definition) FROM pg_views
    WHERE schemaname = 'public'
UNION ALL SELECT format('sequence %s', relname) FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
UNION ALL SELECT format('migration %s %s', number, checksum) FROM applied_migrations
UNION ALL SELECT format('version %s', version_num) FROM schema_version
"""


def git(*arguments: str) -> str:
    """Skips the test where there is no history to read."""
    try:
        process = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("git is not installed")
    if process.returncode != 0:
        pytest.skip(f"this is no checkout with its history: {process.stderr.strip()}")
    return process.stdout


def need_history() -> None:
    if git("rev-parse", "--show-toplevel").strip() != str(ROOT):
        pytest.skip("this is not a checkout of its own")
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("this checkout is shallow, so that earlier commits are not in it")


@cache
def text_of(blob: str) -> str:
    return git("cat-file", "blob", blob)


@cache
def trees() -> list[Chain]:
    """The migrations of each commit that changed some, from the first up to the repair."""
    need_history()
    commits = git("log", "--reverse", "--topo-order", "--format=%H", "HEAD", "--", FOLDER)
    chains = [_blobs(commit) for commit in commits.split()]
    before = [chain for chain in chains if len(chain) < int(schema.REPAIR)]
    return list(dict.fromkeys(before))


def _blobs(commit: str) -> Chain:
    lines = git("ls-tree", commit, f"{FOLDER}/").splitlines()
    return tuple(line.split()[2] for line in lines if line.endswith(".sql"))


def mixed_chains(seed: int, count: int) -> list[list[Chain]]:
    """Upgrades at random commits on the way."""
    rng, known_trees = random.Random(seed), trees()
    picked = [sorted(rng.sample(range(len(known_trees)), rng.randint(2, 6))) for _ in range(count)]
    return [[known_trees[index] for index in indexes] for indexes in picked]


async def make_old(connection: asyncpg.Connection, *upgrades: Chain) -> int:
    """Applies what each upgrade has more than the one before; one that failed then changes nothing,
    as it did then. Returns the number of the newest migration.
    """
    await connection.execute(_VERSION)
    newest = 0
    for chain in upgrades:
        try:
            async with connection.transaction():
                for blob in chain[newest:]:
                    await connection.execute(text_of(blob))
        except asyncpg.PostgresError:
            continue
        newest = max(newest, len(chain))
    await connection.execute("INSERT INTO schema_version VALUES ($1)", f"{newest:04}")
    return newest


async def catalogue(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        return {row[0] for row in await connection.fetch(_CATALOGUE)}
    finally:
        await connection.close()
