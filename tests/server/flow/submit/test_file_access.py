"""Files of tasks: what a submission names, what an attempt may read, leave and go on from."""

import asyncio
import random

import msgspec
import pytest

from potluck.model.blob import INLINE_BYTES, BlobRef, PathText
from potluck.model.error import InvalidInput, NotFound, QuotaExceeded, StaleLease, TooLarge
from potluck.model.ids import NodeId, TaskId
from potluck.model.lease import Lease
from potluck.server.flow.notify import task_stream
from potluck.server.flow.submit import file_access
from potluck.store.files import blobs
from potluck.wire.files import AddedFile, AddFiles, KeepCheckpoint, TaskFiles
from potluck.wire.provider import Grant
from tests.server.flow.blob_uploads import ref, send, send_from_node
from tests.server.flow.pool import Pool, lease_of
from tests.server.flow.schedule.arrays import give


async def listed(
    pool: Pool, task_id: TaskId, limit: int = 500, cursor: str | None = None
) -> TaskFiles:
    return await file_access.of_task(pool.services, pool.alice, task_id, None, cursor, limit)


async def leave(pool: Pool, node_id: NodeId, grant: Grant, *added_files: AddedFile) -> None:
    await file_access.add(pool.services, pool.bobs, node_id, AddFiles(lease_of(grant), added_files))


async def keep(pool: Pool, node_id: NodeId, grant: Grant, blob: BlobRef) -> None:
    request = KeepCheckpoint(lease_of(grant), blob)
    await file_access.keep_checkpoint(pool.services, pool.bobs, node_id, request)


async def test_a_node_reads_what_its_task_names_and_nothing_else(pool: Pool) -> None:
    weights, other = await send(pool, b"weights"), await send(pool, b"of another task")
    node_id, grant = await pool.started()
    async with pool.services.database.transaction() as connection:
        await blobs.claim_inputs(connection, pool.alice, {grant.task_id: [weights]})
    held_lease = lease_of(grant)

    async def read(lease: Lease, blob: BlobRef) -> BlobRef:
        readable = await file_access.of_attempt(
            pool.services, pool.bobs, node_id, lease, blob.sha256
        )
        return readable.blob

    assert await read(held_lease, weights) == weights
    with pytest.raises(NotFound):
        await read(held_lease, other)
    await leave(pool, node_id, grant, AddedFile("out", b"left by an attempt"))
    with pytest.raises(NotFound):
        await read(held_lease, ref(b"left by an attempt"))
    with pytest.raises(StaleLease):
        await read(Lease(held_lease.attempt_id, "x" * 43), weights)
    await pool.finish(grant)
    with pytest.raises(StaleLease):
        await read(held_lease, weights)


@pytest.mark.parametrize("lie", ["never uploaded", "another size", "another account's"])
async def test_a_submission_names_only_what_the_account_has(pool: Pool, lie: str) -> None:
    own_blob, bobs = await send(pool, b"mine"), await send(pool, b"bobs", pool.bob)
    wrong_blobs = {
        "never uploaded": ref(b"nobody has this"),
        "another size": BlobRef(own_blob.sha256, 5),
        "another account's": bobs,
    }[lie]
    node_id, grant = await pool.started()
    assert node_id
    with pytest.raises(InvalidInput, match="no blob"):
        async with pool.services.database.transaction() as connection:
            named_for = {grant.task_id: [own_blob, wrong_blobs]}
            await blobs.claim_inputs(connection, pool.alice, named_for)
    assert await pool.sql("SELECT count(*) FROM task_blobs") == 0


async def test_outputs_of_an_attempt_are_listed_by_path(pool: Pool) -> None:
    node_id, grant = await pool.started()
    large = await send_from_node(pool, node_id, grant, b"x" * (INLINE_BYTES + 1))
    added_files = [
        AddedFile("model.bin", blob=large),
        AddedFile("a/b.txt", b"small"),
        AddedFile("empty"),
    ]
    for _ in range(2):  # an answer may be lost, and the same is said again
        await leave(pool, node_id, grant, *added_files)
    task_files = await listed(pool, grant.task_id)
    assert [file.path for file in task_files.files] == ["a/b.txt", "empty", "model.bin"]
    assert (task_files.attempt, task_files.kept_until, task_files.next_cursor) == (1, None, None)
    assert task_files.files[2].blob == large and task_files.files[0].blob == ref(b"small")
    page = await listed(pool, grant.task_id, 2)
    assert page.next_cursor == "empty"
    next_page = await listed(pool, grant.task_id, 2, cursor="empty")
    assert [file.path for file in next_page.files] == ["model.bin"]
    await leave(pool, node_id, grant, AddedFile("empty", b"no more"))
    assert (await listed(pool, grant.task_id)).files[1].blob == ref(b"no more")
    assert await pool.sql("SELECT count(*) FROM task_blobs WHERE role = 'held'") == 0


async def test_the_ranges_of_an_array_leave_their_files_together(pool: Pool) -> None:
    """Of two with the same path the newer counts: its item was tried again."""
    task = await pool.submit(items=4)
    grants = []
    for start in (0, 2):
        node = await pool.offer()
        grants.append((node.node_id, await give(pool, node, task.id, start, start + 2)))
    for (node_id, grant), paths in zip(grants, (("0/a", "3/a"), ("2/a", "3/a")), strict=True):
        added_files = [AddedFile(path, f"{grant.attempt_id} {path}".encode()) for path in paths]
        await leave(pool, node_id, grant, *added_files)
    task_files = await listed(pool, task.id)
    assert [file.path for file in task_files.files] == [
        "0/a",
        "2/a",
        "3/a",
    ] and task_files.attempt is None
    assert task_files.files[2].blob == ref(f"{grants[1][1].attempt_id} 3/a".encode())
    next_page = await listed(pool, task.id, 2, cursor="0/a")
    assert [file.path for file in next_page.files] == ["2/a", "3/a"]
    of_one = await file_access.of_task(pool.services, pool.alice, task.id, 1, None, 10)
    assert [file.path for file in of_one.files] == ["0/a", "3/a"] and of_one.attempt == 1


async def test_the_longest_path_that_may_be_is_kept(pool: Pool) -> None:
    """Of characters that take four bytes each, and in an order that nobody makes shorter."""
    rng = random.Random(1)
    path = "".join(chr(rng.randrange(0x1F300, 0x1F9FF)) for _ in range(500))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(path + "x", PathText)
    node_id, grant = await pool.started()
    await leave(pool, node_id, grant, AddedFile(msgspec.convert(path, PathText), b"x"))
    assert [file.path for file in (await listed(pool, grant.task_id)).files] == [path]


async def test_the_file_does_not_exist_for_other_accounts(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await leave(pool, node_id, grant, AddedFile("a", b"small"))
    with pytest.raises(NotFound):
        await file_access.of_task(pool.services, pool.bob, grant.task_id, None, None, 10)


async def test_outputs_are_kept_for_a_while_after_the_end(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await leave(pool, node_id, grant, AddedFile("a", b"small"))
    await pool.finish(grant)
    task_files = await listed(pool, grant.task_id)
    assert [file.path for file in task_files.files] == ["a"] and task_files.kept_until is not None
    assert (
        await task_stream.view(pool.services, pool.alice, grant.task_id)
    ).kept_until == task_files.kept_until
    with pytest.raises(StaleLease):
        await leave(pool, node_id, grant, AddedFile("b", b"late"))


async def test_an_attempt_names_only_what_it_has_sent_itself(pool: Pool) -> None:
    """Else a node could make another blob of the account its checkpoint, and read it."""
    secret = await send(pool, b"a secret of alice")
    node_id, grant = await pool.started()
    with pytest.raises(InvalidInput, match="has not sent"):
        await leave(pool, node_id, grant, AddedFile("stolen", blob=secret))
    with pytest.raises(InvalidInput, match="has not sent"):
        await keep(pool, node_id, grant, secret)
    with pytest.raises(InvalidInput, match="has not sent"):
        async with pool.services.database.transaction() as connection:
            await blobs.keep_values(
                connection, pool.alice, grant.task_id, grant.attempt_id, [(0, secret)]
            )
    assert await pool.sql("SELECT count(*) FROM task_blobs") == 0
    assert len(await pool.services.blobs.list("objects/")) == 1


async def test_a_checkpoint_takes_the_place_of_the_last_and_is_given_back(pool: Pool) -> None:
    node_id, grant = await pool.started()
    for step in (b"first", b"second"):
        blob = await send_from_node(pool, node_id, grant, step)
        for _ in range(2):
            await keep(pool, node_id, grant, blob)
    hashes = await pool.sql("SELECT array_agg(sha256) FROM task_blobs WHERE role = 'checkpoint'")
    assert [sha256.hex() for sha256 in hashes] == [ref(b"second").sha256]
    readable = await file_access.of_attempt(
        pool.services, pool.bobs, node_id, lease_of(grant), ref(b"second").sha256
    )
    assert readable.blob == ref(b"second")


async def test_of_two_concurrent_checkpoints_one_is_kept(pool: Pool) -> None:
    node_id, grant = await pool.started()
    sent = [await send_from_node(pool, node_id, grant, step) for step in (b"one", b"two")]
    hold = "SELECT FROM blob_use FOR UPDATE"
    async with pool.services.database.transaction() as connection:
        await connection.execute(hold)  # so that both are on their way before one of them is kept
        keep_tasks = [asyncio.create_task(keep(pool, node_id, grant, blob)) for blob in sent]
        await asyncio.wait(keep_tasks, timeout=0.1)
    await asyncio.gather(*keep_tasks)
    assert await pool.sql("SELECT count(*) FROM task_blobs WHERE role = 'checkpoint'") == 1


async def test_an_array_has_no_checkpoint(pool: Pool) -> None:
    """Else one of its nodes would say what the others go on from."""
    node_id, grant = await pool.started(items=3)
    blob = await send_from_node(pool, node_id, grant, b"a checkpoint")
    with pytest.raises(InvalidInput, match="An array has no checkpoint"):
        await keep(pool, node_id, grant, blob)


async def test_files_count_in_the_quota_of_the_tasks_account(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await pool.sql("UPDATE accounts SET max_blob_bytes = 10000 WHERE id = $1", pool.alice)
    await leave(pool, node_id, grant, AddedFile("a", b"x" * 8000))
    with pytest.raises(QuotaExceeded):
        await leave(pool, node_id, grant, AddedFile("b", b"y" * 8000))
    assert [file.path for file in (await listed(pool, grant.task_id)).files] == ["a"]
    assert len(await pool.services.blobs.list("objects/")) == 1, "what was refused is not kept"


async def test_small_files_count_as_much_as_they_are_counted_afterwards(pool: Pool) -> None:
    node_id, grant = await pool.started()
    sent = await send_from_node(pool, node_id, grant, b"x" * 5000)
    await pool.sql("UPDATE accounts SET max_blob_bytes = 20000 WHERE id = $1", pool.alice)
    with pytest.raises(QuotaExceeded, match=r"5000 of its 20000 bytes.* 16384 more"):
        await leave(pool, node_id, grant, *(AddedFile(str(n), bytes([n])) for n in range(4)))
    await leave(pool, node_id, grant, *(AddedFile(str(n), bytes([n])) for n in range(3)))
    await pool.sql("UPDATE accounts SET max_blob_bytes = 1 WHERE id = $1", pool.alice)
    await leave(pool, node_id, grant, AddedFile("sent before", blob=sent))


async def test_an_attempt_leaves_only_so_many_files(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_access, "MOST_OUTPUT_FILES", 3)
    node_id, grant = await pool.started()
    await leave(pool, node_id, grant, *(AddedFile(str(n), b"same") for n in range(3)))
    with pytest.raises(TooLarge):
        await leave(pool, node_id, grant, AddedFile("one more", b"same"))
    assert len((await listed(pool, grant.task_id)).files) == 3


async def test_values_that_are_blobs_are_held_by_the_task(pool: Pool) -> None:
    node_id, grant = await pool.started()
    blob = await send_from_node(pool, node_id, grant, b"a large value")
    async with pool.services.database.transaction() as connection:
        await blobs.keep_values(
            connection, pool.alice, grant.task_id, grant.attempt_id, [(0, blob)]
        )
    roles = await pool.sql("SELECT array_agg(role) FROM task_blobs")
    assert roles == ["result"]
