"""Versions of volumes are locked in the order of volume and hash, and before claims, everywhere.

Each test holds one row, lets a stage run into it, and asks for a row that comes later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from potluck.model.blob import BlobRef, VolumeMount
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.server.flow.submit import submit, volumes
from potluck.wire.volumes import ChangeVolume
from tests.server.flow.blob_uploads import send
from tests.server.flow.pool import Pool
from tests.server.flow.submit.test_volumes import ONE, TWO, put_files
from tests.server.flow.test_lock_order import until_it_waits

FIRST = "SELECT FROM volume_versions ORDER BY volume_id, version LIMIT 1"
LAST = "SELECT FROM volume_versions ORDER BY volume_id DESC, version DESC LIMIT 1"
CLAIM = "SELECT FROM blob_claims WHERE sha256 = $1 FOR UPDATE NOWAIT"


async def two_versions(pool: Pool, *names: str) -> list[str]:
    """The ids of their volumes. The first version is last in the table; neither was used lately."""
    parts = zip(names, ({"a": ONE}, {"b": TWO}), strict=True)
    details = [await put_files(pool, name, **files) for name, files in parts]
    await pool.sql("UPDATE volume_versions SET used_at = now() - interval '1 hour'")
    moved = "SELECT volume_id, version FROM volume_versions ORDER BY 1, 2 LIMIT 1"
    await pool.sql(
        f"UPDATE volume_versions SET files = files WHERE (volume_id, version) = ({moved})"
    )
    return [each.volume.id for each in details]


async def mount(pool: Pool, *files: BlobRef) -> None:
    mounts = VolumeMount("two", "/two"), VolumeMount("one", "/one")
    spec = ScriptSpec("a.py", "print(1)", stdin=files[0] if files else None)
    request = TaskRequest(spec, requirements=Requirements(volumes=mounts))
    await submit.submit(pool.services, pool.alice, request, None)


async def waiting_for_the_first_version(
    pool: Pool, stage: Callable[[], Awaitable[Any]], lock: str, *free: tuple[Any, ...]
) -> None:
    async with pool.services.database.transaction() as connection:
        await connection.execute(f"{FIRST} {lock}")
        running = asyncio.ensure_future(stage())
        await until_it_waits(pool, running)
        for query, *arguments in free:
            await connection.execute(query, *arguments)
    await running


# A submission holds versions with a weak lock, and marks them as used with the stronger one.
@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR NO KEY UPDATE"])
async def test_a_submission_waits_for_a_version_without_holding_a_later_one_or_a_claim(
    pool: Pool, lock: str
) -> None:
    await two_versions(pool, "one", "two")
    blob = await send(pool, b"an input")
    free = (f"{LAST} {lock} NOWAIT",), (CLAIM, bytes.fromhex(blob.sha256))
    await waiting_for_the_first_version(pool, lambda: mount(pool, blob), lock, *free)


async def test_the_removal_of_all_versions_waits_without_holding_a_later_one(pool: Pool) -> None:
    volume_id, _ = await two_versions(pool, "one", "one")

    async def remove() -> None:
        await volumes.remove(pool.services, pool.alice, volume_id, None)

    await waiting_for_the_first_version(pool, remove, "FOR UPDATE", (f"{LAST} FOR UPDATE NOWAIT",))


async def test_expired_versions_are_removed_in_the_order_of_submissions(pool: Pool) -> None:
    for volume_id in await two_versions(pool, "one", "two"):
        wanted = ChangeVolume(keep_seconds=60.0)
        await volumes.change(pool.services, pool.alice, volume_id, wanted)
    free = (f"{LAST} FOR UPDATE NOWAIT",)
    await waiting_for_the_first_version(
        pool, lambda: volumes.expire(pool.services), "FOR UPDATE", free
    )
    async with asyncio.timeout(30):
        assert await volumes.list_page(pool.services, pool.alice, None, 10) == []
