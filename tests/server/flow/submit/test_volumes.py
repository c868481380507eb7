"""Volumes on the server: what may become a version, who may read it, and when its bytes go."""

import hashlib
from typing import Any

import msgspec
import pytest

from potluck.model.blob import BlobRef, VolumeMount
from potluck.model.error import Conflict, InvalidInput, NotFound, PotluckError, QuotaExceeded
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.server.flow.housekeeping import garbage
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import file_access, submit, submit_many, volumes
from potluck.store.files.volumes import RemovedVersion, drop
from potluck.wire.volumes import (
    ChangeVolume,
    PutVolume,
    VolumeChunk,
    VolumeDetails,
    VolumeFile,
    VolumeManifest,
)
from tests.server.flow.blob_uploads import ref, send
from tests.server.flow.housekeeping.test_garbage import check_books, collected, hurried, rows
from tests.server.flow.pool import Pool

ONE, TWO = b"one" * 2_000, b"two" * 2_000


def chunk(data: bytes, pack: int = 0, offset: int = 0) -> VolumeChunk:
    return VolumeChunk(pack, offset, len(data), hashlib.sha256(data).digest())


async def put(
    pool: Pool, manifest: VolumeManifest, name: str = "data", **fields: Any
) -> VolumeDetails:
    sent = await send(pool, manifest.encode())
    return await volumes.put(pool.services, pool.alice, PutVolume(name, sent, **fields))


async def put_files(pool: Pool, name: str = "data", **files: bytes) -> VolumeDetails:
    """A version with a pack for each file."""
    packs = tuple([await send(pool, data) for data in files.values()])
    entries = [
        VolumeFile(path, False, (chunk(data, number),))
        for number, (path, data) in enumerate(files.items())
    ]
    return await put(pool, VolumeManifest(packs, tuple(entries)), name)


async def mounting(pool: Pool, account_id: AccountId, *mounts: VolumeMount) -> TaskId:
    needs = Requirements(volumes=mounts)
    request = TaskRequest(ScriptSpec("a.py", "print(1)"), requirements=needs)
    return (await submit.submit(pool.services, account_id, request, None)).id


def one_file(file_chunk: VolumeChunk, *packs: BlobRef) -> bytes:
    return VolumeManifest(packs, (VolumeFile("a", False, (file_chunk,)),)).encode()


PACK = BlobRef("1" * 64, 6)
EMPTY = VolumeFile("a", False, ())
BAD: dict[str, bytes] = {
    "not msgpack": b"\xff\x00",
    "a number": msgspec.msgpack.encode(7),
    "no files": msgspec.msgpack.encode([[], []]),
    "out of the pack": VolumeManifest(
        (PACK,), (VolumeFile("a", False, (chunk(b"1234567"),)),)
    ).encode(),
    "no such pack": one_file(chunk(b"1")),
    "an unused pack": VolumeManifest((PACK,), (EMPTY,)).encode(),
    "a pack twice": VolumeManifest(
        (PACK, PACK), (VolumeFile("a", False, (chunk(b"1"),)),)
    ).encode(),
    "upwards": VolumeManifest((), (VolumeFile("../a", False, ()),)).encode(),
    "absolute": VolumeManifest((), (VolumeFile("/etc/passwd", False, ()),)).encode(),
    "no order": VolumeManifest((), (VolumeFile("b", False, ()), EMPTY)).encode(),
    "twice": VolumeManifest((), (EMPTY, EMPTY)).encode(),
    "below a file": VolumeManifest((), (EMPTY, VolumeFile("a/b", False, ()))).encode(),
    "no hash": msgspec.msgpack.encode([[], [["a", False, [[0, 0, 1, b"short"]]]]]),
    "nested": b"\x91" * 10_000,
}


@pytest.mark.parametrize("name", BAD)
async def test_an_invalid_manifest_is_refused_with_a_sentence(pool: Pool, name: str) -> None:
    sent = await send(pool, BAD[name])
    with pytest.raises(InvalidInput, match="not the manifest of a volume"):
        await volumes.put(pool.services, pool.alice, PutVolume("data", sent))
    assert await volumes.list_page(pool.services, pool.alice, None, 10) == []


async def test_a_version_needs_all_that_it_names(pool: Pool) -> None:
    pack = await send(pool, ONE, pool.bob)  # somebody else's: the hash alone opens nothing
    manifest = VolumeManifest((pack,), (VolumeFile("a", False, (chunk(ONE),)),))
    with pytest.raises(Conflict, match="not stored"):
        await put(pool, manifest)
    with pytest.raises(InvalidInput, match="no blob"):
        await volumes.put(pool.services, pool.alice, PutVolume("data", ref(b"never sent")))
    await send(pool, ONE)
    assert (await put(pool, manifest)).volume.newest.size_bytes == len(ONE)


async def test_the_same_content_is_one_version_in_any_packs(pool: Pool) -> None:
    first = await put_files(pool, a=ONE, b=TWO)
    both = await send(pool, ONE + TWO)
    files = (
        VolumeFile("a", False, (chunk(ONE),)),
        VolumeFile("b", False, (chunk(TWO, 0, len(ONE)),)),
    )
    second_details = await put(pool, VolumeManifest((both,), files))
    assert [version.version for version in second_details.versions] == [first.versions[0].version]
    assert second_details.versions[0].manifest == first.versions[0].manifest
    other = await put(pool, VolumeManifest((both,), (VolumeFile("a", True, (chunk(ONE),)),)))
    assert len(other.versions) == 2, "the mode belongs to it"
    with pytest.raises(Conflict, match="another version now"):
        await put(pool, VolumeManifest((), (EMPTY,)), after=first.versions[0].version)


async def test_a_put_after_a_version_is_safe_to_repeat(pool: Pool) -> None:
    first = await put_files(pool, a=ONE)
    details = [
        await put(pool, VolumeManifest((), (EMPTY,)), after=first.volume.newest.version)
        for _ in range(2)
    ]
    assert details[0].volume.newest.version == details[1].volume.newest.version
    assert len(details[1].versions) == 2


async def test_its_bytes_stay_while_it_exists_and_go_with_it(pool: Pool) -> None:
    """Also from a server that does not know of volumes: the claims are pinned."""
    details = await put_files(pool, a=ONE, b=TWO)
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 3
    make_due = "UPDATE blob_claims SET look_at = now()"
    await pool.sql(make_due)
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 3
    # A second version keeps one of the packs.
    await put_files(pool, a=ONE)
    version = details.versions[0].version
    await volumes.remove(pool.services, pool.alice, details.volume.id, version)
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 2, "its manifest, and the pack that both had"
    await volumes.remove(pool.services, pool.alice, details.volume.id, None)
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 0
    assert await pool.sql("SELECT count(*) FROM volumes") == 0
    await check_books(pool)


async def stored(pool: Pool) -> tuple[int, int]:
    """What the list says, and what it is by all packs."""
    (view,) = await volumes.list_page(pool.services, pool.alice, None, 10)
    counted = await pool.sql(
        "SELECT sum(size_bytes)::bigint FROM (SELECT DISTINCT sha256, blob_claims.size_bytes"
        " FROM volume_blobs JOIN blob_claims USING (account_id, sha256)) AS pack"
    )
    return view.stored_bytes, counted


async def test_a_pack_shared_by_versions_is_counted_once(pool: Pool) -> None:
    first = await put_files(pool, a=ONE, b=TWO)
    stored_bytes, counted = await stored(pool)
    assert stored_bytes == counted == 12_000 + first.versions[0].manifest.size_bytes
    second = await put_files(pool, a=ONE)
    stored_bytes, counted = await stored(pool)
    manifests = sum(version.manifest.size_bytes for version in second.versions)
    assert stored_bytes == counted == 12_000 + manifests
    version = first.versions[0].version
    await volumes.remove(pool.services, pool.alice, first.volume.id, version)
    stored_bytes, counted = await stored(pool)
    assert stored_bytes == counted == 6_000 + second.volume.newest.manifest.size_bytes


async def test_tasks_that_have_ended_are_forgotten_with_a_removed_version(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some at a time, however many have mounted it."""
    monkeypatch.setattr("potluck.store.files.volumes._MOST_MOUNTS", 2)
    details = await put_files(pool, a=ONE)
    mount = VolumeMount("data", "/data")
    ids = [await mounting(pool, pool.alice, mount) for _ in range(4)]
    for task_id in ids[:3]:
        await cancel.cancel(pool.services, pool.alice, task_id)
    await volumes.remove(pool.services, pool.alice, details.volume.id, None)
    assert await pool.sql("SELECT count(*) FROM task_volumes") == 2
    await volumes.expire(pool.services)
    assert await pool.sql("SELECT count(*) FROM task_volumes") == 1
    assert await pool.sql("SELECT count(*) FROM volume_versions") == 1
    await cancel.cancel(pool.services, pool.alice, ids[3])
    await volumes.expire(pool.services)
    assert await pool.sql("SELECT count(*) FROM volumes") == 0


async def test_a_task_keeps_its_version_until_it_has_ended(pool: Pool) -> None:
    details = await put_files(pool, a=ONE)
    task_id = await mounting(pool, pool.alice, VolumeMount("data", "/data"))
    await volumes.remove(pool.services, pool.alice, details.volume.id, None)
    with pytest.raises(InvalidInput, match="no volume"):
        await mounting(pool, pool.alice, VolumeMount("data", "/data"))
    await volumes.expire(pool.services)
    # Nor does it go if it was found just before the task came.
    version = bytes.fromhex(details.versions[0].version)
    removed_version = RemovedVersion(pool.alice, details.volume.id, version)
    async with pool.services.database.transaction() as connection:
        await drop(connection, removed_version)
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 2
    # Put again while it is there, it is what it was.
    second_details = await put_files(pool, a=ONE)
    assert second_details.versions[0].version == details.versions[0].version
    await volumes.remove(pool.services, pool.alice, details.volume.id, None)
    await cancel.cancel(pool.services, pool.alice, task_id)
    await volumes.expire(pool.services)
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 0
    await check_books(pool)


async def test_only_accounts_with_access_read_a_volume_and_only_its_part_of_a_pack(
    pool: Pool,
) -> None:
    both = await send(pool, ONE + TWO)
    details = await put(pool, VolumeManifest((both,), (VolumeFile("a", False, (chunk(ONE),)),)))
    volume_id = details.volume.id
    bobs = await pool.sql("SELECT address FROM accounts WHERE id = $1", pool.bob)
    for ask in (
        lambda: volumes.show(pool.services, pool.bob, volume_id),
        lambda: volumes.remove(pool.services, pool.bob, volume_id, None),
        lambda: volumes.change(pool.services, pool.bob, volume_id, ChangeVolume()),
        lambda: file_access.of_account(pool.services, pool.bob, both.sha256),
    ):
        with pytest.raises(NotFound):
            await ask()
    await volumes.change(pool.services, pool.alice, volume_id, ChangeVolume(shared_with=(bobs,)))
    foreign_view = await volumes.show(pool.services, pool.bob, volume_id)
    assert (foreign_view.volume.is_own, foreign_view.volume.shared_with) == (False, [])
    stored = await file_access.of_account(pool.services, pool.bob, both.sha256)
    assert stored.spans == ((0, len(ONE)),)
    assert stored.may_read(0, len(ONE)) and not stored.may_read(0, len(ONE) + 1)
    readable = await file_access.of_account(pool.services, pool.alice, both.sha256)
    assert readable.spans is None
    # Sharing gives no right to change it, or to name its blobs.
    for ask in (
        lambda: volumes.remove(pool.services, pool.bob, volume_id, None),
        lambda: volumes.change(pool.services, pool.bob, volume_id, ChangeVolume()),
    ):
        with pytest.raises(NotFound):
            await ask()
    manifest = VolumeManifest((both,), (VolumeFile("b", False, (chunk(TWO, 0, len(ONE)),)),))
    foreign_manifest = await send(pool, manifest.encode(), pool.bob)
    with pytest.raises(Conflict, match="not stored"):
        await volumes.put(pool.services, pool.bob, PutVolume("mine", foreign_manifest))
    with pytest.raises(InvalidInput, match="wrong checksum"):
        mistyped = ChangeVolume(shared_with=(bobs[:-1] + ("1" if bobs[-1] != "1" else "2"),))
        await volumes.change(pool.services, pool.alice, volume_id, mistyped)


async def test_a_list_of_tasks_mounts_them_all(pool: Pool) -> None:
    details = await put_files(pool, a=ONE)
    needs = Requirements(volumes=(VolumeMount("data", "/data"),))
    good = TaskRequest(ScriptSpec("a.py", "print(1)"), requirements=needs)
    bad = TaskRequest(
        ScriptSpec("a.py", "print(1)"),
        requirements=Requirements(volumes=(VolumeMount("no", "/d"),)),
    )
    response = await submit_many.submit_many(pool.services, pool.alice, [good, bad, good], None)
    assert [task.task_id is not None for task in response.tasks] == [True, False, True]
    assert await pool.sql("SELECT count(*) FROM task_volumes") == 2
    version = bytes.fromhex(details.versions[0].version)
    assert await pool.sql("SELECT count(*) FROM task_volumes WHERE version = $1", version) == 2


async def test_a_volume_counts_against_the_quota(pool: Pool) -> None:
    await pool.sql("UPDATE accounts SET max_blob_bytes = 20000 WHERE id = $1", pool.alice)
    await put_files(pool, a=ONE)
    with pytest.raises(QuotaExceeded):
        await put_files(pool, "more", b=TWO, c=b"x" * 6_000, d=b"y" * 6_000)


async def test_concurrent_puts_and_removals_leave_all_of_it_or_nothing(pool: Pool) -> None:
    import asyncio

    async def put_and_remove(number: int) -> None:
        details = await put_files(pool, f"v{number % 2}", a=ONE, b=bytes([number]) * 5_000)
        if number % 3:
            try:
                await volumes.remove(pool.services, pool.alice, details.volume.id, None)
            except PotluckError as error:
                assert error.code == "not_found"

    async def collect() -> None:
        for _ in range(10):
            await garbage.release_unused_claims(hurried(pool))
            await volumes.expire(pool.services)

    outcomes = await asyncio.gather(
        *(put_and_remove(number) for number in range(12)), collect(), return_exceptions=True
    )
    for outcome in outcomes:
        assert outcome is None or isinstance(outcome, Conflict | NotFound), outcome
    for view in await volumes.list_page(pool.services, pool.alice, None, 10):
        for version in (await volumes.show(pool.services, pool.alice, view.id)).versions:
            await file_access.of_account(pool.services, pool.alice, version.manifest.sha256)
    orphan_count = await pool.sql(
        "SELECT count(*) FROM volume_blobs WHERE NOT EXISTS (SELECT FROM blob_claims WHERE"
        " blob_claims.sha256 = volume_blobs.sha256 AND pinned_until = 'infinity')"
    )
    assert orphan_count == 0
