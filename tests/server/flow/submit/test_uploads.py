"""Uploads: parts in order, kept before they count, checked when all are there, never half seen."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef
from potluck.model.error import Conflict, InvalidInput, NotFound, QuotaExceeded, Unavailable
from potluck.model.ids import AccountId
from potluck.server.flow.submit import file_access, upload
from potluck.store.database import Connection, Database
from potluck.store.files import blobs, uploads
from potluck.store.nodes.nodes import Owner
from potluck.wire.files import PART_BYTES, BeginNodeUpload
from tests.server.flow.blob_uploads import finish, ref, send, send_from_node
from tests.server.flow.pool import Pool, lease_of

LARGE = os.urandom(PART_BYTES + 1000)


async def pieces_of(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 65_536):
        yield data[start : start + 65_536]


async def take(pool: Pool, upload_id: str, number: int, data: bytes) -> Any:
    open_upload = await upload.of_account(pool.services, pool.alice, upload_id)
    return await upload.take_part(pool.services, open_upload, number, pieces_of(data))


async def read(pool: Pool, account_id: AccountId, blob: BlobRef) -> bytes:
    stored = await file_access.of_account(pool.services, account_id, blob.sha256)
    stream = pool.services.blobs.stream(stored.object_key, 0, blob.size_bytes)
    return b"".join([piece async for piece in stream])


@pytest.mark.parametrize("data", [b"", b"x", LARGE, LARGE[:PART_BYTES]])
async def test_uploaded_bytes_can_be_read_back(pool: Pool, data: bytes) -> None:
    blob = await send(pool, data)
    assert await read(pool, pool.alice, blob) == data
    assert await pool.services.blobs.list("uploads/") == []


async def test_an_upload_resumes_after_the_existing_parts(pool: Pool) -> None:
    blob = ref(LARGE)
    first = await upload.begin(pool.services, pool.alice, blob)
    await take(pool, first.upload_id, 0, LARGE[:PART_BYTES])
    resumed = await upload.begin(pool.services, pool.alice, blob)
    assert (resumed.upload_id, resumed.parts_done, resumed.complete) == (first.upload_id, 1, False)
    repeated = await take(pool, first.upload_id, 0, b"not even read")
    assert repeated.parts_done == 1
    await take(pool, first.upload_id, 1, LARGE[PART_BYTES:])
    for _ in range(2):  # an answer may be lost, and whoever asks again is told the same
        await finish(pool, first.upload_id)
    assert (await take(pool, first.upload_id, 1, b"not even read")).complete
    assert await read(pool, pool.alice, blob) == LARGE


async def test_bytes_that_the_account_has_are_not_uploaded_again(pool: Pool) -> None:
    blob = await send(pool, b"weights")
    new_upload = await upload.begin(pool.services, pool.alice, blob)
    assert (new_upload.complete, new_upload.upload_id) == (True, "")


async def test_a_hash_is_no_key(pool: Pool) -> None:
    """Bob sends all of it himself; until then it is as if nobody had it."""
    blob = await send(pool, b"weights")
    with pytest.raises(NotFound):
        await file_access.of_account(pool.services, pool.bob, blob.sha256)
    assert not (await upload.begin(pool.services, pool.bob, blob)).complete
    await send(pool, b"weights", pool.bob)
    assert await read(pool, pool.bob, blob) == b"weights"
    assert len(await pool.services.blobs.list("objects/")) == 1, "the same bytes are kept once"


async def test_bytes_with_another_hash_are_refused_and_gone(pool: Pool) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    await take(pool, new_upload.upload_id, 0, b"weightz")
    for _ in range(2):  # whoever was not told asks again, and does not begin again for nothing
        with pytest.raises(InvalidInput, match="hash"):
            await finish(pool, new_upload.upload_id)
    assert await pool.services.blobs.list("") == []
    assert await pool.sql("SELECT used_bytes FROM blob_use") == 0
    anew = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    assert (anew.parts_done, anew.complete) == (0, False) and anew.upload_id != new_upload.upload_id


async def test_bytes_are_not_removed_when_nobody_knows_whether_they_were_handed_over(
    pool: Pool,
) -> None:
    """The database may have taken it and fallen silent before it could say so."""
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    await take(pool, new_upload.upload_id, 0, b"weights")
    open_upload = await upload.of_account(pool.services, pool.alice, new_upload.upload_id)
    cut = replace(pool.services, database=CommitsAndFails(pool.services.database))
    with pytest.raises(Unavailable):
        await upload.finish(cut, open_upload)
    assert await read(pool, pool.alice, ref(b"weights")) == b"weights"
    await finish(pool, new_upload.upload_id)


@pytest.mark.parametrize("size_bytes", [0, 6, 8])
async def test_a_part_has_exactly_its_size(pool: Pool, size_bytes: int) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    with pytest.raises(InvalidInput, match="7 bytes"):
        await take(pool, new_upload.upload_id, 0, b"x" * size_bytes)
    assert await pool.services.blobs.list("") == []


async def test_parts_come_in_order_and_all_before_the_end(pool: Pool) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(LARGE))
    for number in (1, 2, 99):
        with pytest.raises(Conflict, match="0 of 2 parts"):
            await take(pool, new_upload.upload_id, number, LARGE[PART_BYTES:])
    open_upload = await upload.of_account(pool.services, pool.alice, new_upload.upload_id)
    with pytest.raises(Conflict, match="0 of 2 parts"):
        await upload.finish(pool.services, open_upload)


async def test_the_same_part_twice_at_once_counts_once(pool: Pool) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(LARGE))
    both = await asyncio.gather(
        *(take(pool, new_upload.upload_id, 0, LARGE[:PART_BYTES]) for _ in range(2))
    )
    assert [progress.parts_done for progress in both] == [1, 1]


async def test_two_concurrent_finishes_both_report_completion(pool: Pool) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    await take(pool, new_upload.upload_id, 0, b"weights")
    await asyncio.gather(*(finish(pool, new_upload.upload_id) for _ in range(2)))
    assert len(await pool.services.blobs.list("objects/")) == 1


@pytest.mark.parametrize("sent", [b"weights", b"weightz"])
async def test_a_late_call_gets_the_answer_of_the_concurrent_one(pool: Pool, sent: bytes) -> None:
    """Each has read that the upload is not finished before it is."""
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    await take(pool, new_upload.upload_id, 0, sent)
    open_upload = await upload.of_account(pool.services, pool.alice, new_upload.upload_id)
    for _ in range(2):
        if sent == b"weights":
            assert (await upload.finish(pool.services, open_upload)).complete
        else:
            with pytest.raises(InvalidInput, match="hash"):
                await upload.finish(pool.services, open_upload)


async def test_a_full_disk_is_said_and_leaves_nothing(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    write = os.write

    def full(descriptor: int, data: Any) -> int:
        if bytes(data) == b"weights":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Unavailable, match="disk is full"):
        await take(pool, new_upload.upload_id, 0, b"weights")
    assert await pool.services.blobs.list("") == []
    monkeypatch.setattr(os, "write", write)
    assert (await take(pool, new_upload.upload_id, 0, b"weights")).parts_done == 1


class CommitsAndFails(Database):
    """A connection that dies between a commit and the news of it."""

    def __init__(self, real: Database) -> None:
        self._real = real

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._real.transaction() as connection:
            yield connection
        raise Unavailable("The database is not answering.")


async def test_an_account_has_no_more_than_its_quota(pool: Pool) -> None:
    await pool.sql("UPDATE accounts SET max_blob_bytes = 10000 WHERE id = $1", pool.alice)
    await send(pool, b"x" * 5000)
    with pytest.raises(QuotaExceeded, match="5000 of its 10000 bytes"):
        await upload.begin(pool.services, pool.alice, ref(b"y" * 5001))
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"y" * 5000))
    resumed = await upload.begin(pool.services, pool.alice, ref(b"y" * 5000))
    assert resumed.upload_id == new_upload.upload_id, "what is under way is counted once"
    with pytest.raises(QuotaExceeded):
        await upload.begin(pool.services, pool.alice, ref(b"z"))


async def test_an_upload_that_ends_concurrently_keeps_its_quota_reserved(pool: Pool) -> None:
    """Whoever begins it again sees it either under way, and goes on, or asks for room anew."""
    await pool.sql("UPDATE accounts SET max_blob_bytes = 5000 WHERE id = $1", pool.alice)
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"x" * 5000))
    async with pool.services.database.transaction() as connection:
        await blobs.lock_use(connection, pool.alice)
        resuming = asyncio.create_task(upload.begin(pool.services, pool.alice, ref(b"x" * 5000)))
        await asyncio.wait([resuming], timeout=0.1)
        await uploads.abandon(connection, new_upload.upload_id)
        other = ref(b"y" * 5000)
        await uploads.begin(connection, pool.alice, None, other, PART_BYTES)
    with pytest.raises(QuotaExceeded):
        await resuming


async def test_many_at_once_do_not_pass_the_quota_together(pool: Pool) -> None:
    await pool.sql("UPDATE accounts SET max_blob_bytes = 50000 WHERE id = $1", pool.alice)
    outcomes = await asyncio.gather(
        *(upload.begin(pool.services, pool.alice, ref(bytes([n]) * 10_000)) for n in range(12)),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, QuotaExceeded) for outcome in outcomes) == 7
    assert await pool.sql("SELECT used_bytes FROM blob_use") == 50_000


async def test_uploads_of_an_attempt_belong_to_the_account_of_its_task(pool: Pool) -> None:
    node_id, grant = await pool.started()
    blob = await send_from_node(pool, node_id, grant, LARGE)
    assert await read(pool, pool.alice, blob) == LARGE
    with pytest.raises(NotFound):
        await file_access.of_account(pool.services, pool.bob, blob.sha256)
    request = BeginNodeUpload(lease_of(grant), blob)
    assert (await upload.begin_for_node(pool.services, pool.bobs, node_id, request)).complete


async def test_a_node_is_not_told_what_the_account_has(pool: Pool) -> None:
    secret = await send(pool, b"a secret of alice")
    node_id, grant = await pool.started()
    request = BeginNodeUpload(lease_of(grant), secret)
    assert not (await upload.begin_for_node(pool.services, pool.bobs, node_id, request)).complete


async def test_another_node_does_not_go_on_with_it(pool: Pool) -> None:
    node_id, grant = await pool.started()
    other = await pool.offer()
    request = BeginNodeUpload(lease_of(grant), ref(b"weights"))
    new_upload = await upload.begin_for_node(pool.services, pool.bobs, node_id, request)
    with pytest.raises(NotFound):
        await upload.of_node(pool.services, pool.bobs, other.node_id, new_upload.upload_id)
    with pytest.raises(NotFound):
        await upload.of_node(pool.services, Owner(pool.alice), node_id, new_upload.upload_id)
    with pytest.raises(NotFound):
        await upload.of_account(pool.services, pool.alice, new_upload.upload_id)
    await pool.finish(grant)
    with pytest.raises(NotFound):
        await upload.of_node(pool.services, pool.bobs, node_id, new_upload.upload_id)
