"""What nobody needs goes, step by step; what somebody is about to need stays, whoever is first."""

import asyncio
import random
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, NamedFile
from potluck.model.error import InvalidInput, NotFound, Unavailable
from potluck.model.ids import TaskId, first_id_at
from potluck.model.task import EndReason, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.housekeeping import garbage
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import file_access, submit, upload
from potluck.server.loops.garbage import GarbageLoop
from potluck.server.loops.leadership import LeadershipLoop
from potluck.server.services import Services
from potluck.store import backups
from potluck.store.files import garbage as store_collect
from potluck.wire.files import AddedFile, AddFiles, KeepCheckpoint
from potluck.wire.provider import Finished
from tests.server.flow.blob_uploads import ref, send, send_from_node
from tests.server.flow.pool import Pool, lease_of
from tests.server.flow.report.functions import ask, call, returned
from tests.server.flow.schedule.arrays import give

BRIEF = {
    "keep_results_seconds": 0.001,
    "pin_seconds": 0.001,
    "collect_wait_seconds": 0.001,
    "upload_idle_seconds": 0.001,
    "sweep_objects_seconds": 0.001,
    "collect_seconds": 0.001,
}


def hurried(pool: Pool, **changes: float) -> Services:
    """The same pool, which forgets at once."""
    settings = replace(pool.services.settings, **{**BRIEF, **changes})
    return replace(pool.services, settings=settings)


async def collected(services: Services) -> None:
    for step in (
        garbage.clear_tasks,
        garbage.drop_idle_uploads,
        garbage.release_unused_claims,
        garbage.remove_marked,
        garbage.sweep_orphans,
    ):
        await asyncio.sleep(0.005)
        await step(services)


async def rows(pool: Pool) -> dict[str, int]:
    tables = ("blobs", "blob_claims", "task_blobs", "uploads")
    return {table: await pool.sql(f"SELECT count(*) FROM {table}") for table in tables}


async def check_books(pool: Pool) -> None:
    """What is counted is what is there, and every row has its object."""
    counted = await pool.sql("SELECT coalesce(sum(used_bytes), 0) FROM blob_use")
    stored_sizes = await pool.sql(
        "SELECT coalesce(sum(counted_bytes(size_bytes)), 0) FROM ("
        " SELECT size_bytes FROM blob_claims UNION ALL SELECT size_bytes FROM uploads) AS all_of"
    )
    assert counted == stored_sizes
    object_names = await pool.sql(
        "SELECT coalesce(array_agg(object_key ORDER BY object_key), '{}') FROM blobs"
    )
    assert await pool.services.blobs.list("objects/") == object_names


async def submit_with(services: Services, pool: Pool, blob: BlobRef) -> TaskId:
    spec = ScriptSpec("a.py", "print(1)", files=(NamedFile("data", blob),))
    return (await submit.submit(services, pool.alice, TaskRequest(spec), None)).id


async def test_an_upload_that_no_task_names_goes_after_a_while(pool: Pool) -> None:
    blob = await send(pool, b"weights")
    await collected(pool.services)
    assert (await rows(pool))["blobs"] == 1, "it is pinned"
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    await collected(pool.services)
    with pytest.raises(NotFound):
        await file_access.of_account(pool.services, pool.alice, blob.sha256)
    assert len(await pool.services.blobs.list("objects/")) == 1, "it is only marked"
    await collected(hurried(pool))
    assert (await rows(pool))["blobs"] == 0
    await check_books(pool)


async def test_a_repeated_upload_keeps_a_blob(pool: Pool) -> None:
    await send(pool, b"weights")
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    await collected(pool.services)
    assert await pool.sql("SELECT marked_at IS NOT NULL FROM blobs")
    await send(pool, b"weights", pool.bob)
    assert not await pool.sql("SELECT marked_at IS NOT NULL FROM blobs")
    await pool.sql("UPDATE blobs SET marked_at = now() - interval '1 day'")
    await collected(hurried(pool, pin_seconds=86_400.0))
    assert (await rows(pool))["blobs"] == 1 and await pool.sql(
        "SELECT marked_at FROM blobs"
    ) is None
    await check_books(pool)


async def test_blobs_of_a_task_stay_until_its_results_are_deleted(pool: Pool) -> None:
    parts = hurried(pool)
    blob = await send(pool, b"weights")
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    task_id = await submit_with(parts, pool, blob)
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    await collected(parts)
    assert (await rows(pool))["blobs"] == 1
    await cancel.cancel(parts, pool.alice, task_id)
    await collected(hurried(pool, keep_results_seconds=60.0))
    assert (await rows(pool))["blobs"] == 1
    await collected(parts)
    assert set((await rows(pool)).values()) == {0}
    await check_books(pool)


async def test_an_input_of_several_tasks_goes_with_the_last_of_them(pool: Pool) -> None:
    """Uploaded twice, named thrice: neither keeps it any longer than was promised."""
    parts = hurried(pool)
    hasty_pool = Pool(parts, pool.alice, pool.bob, pool.leads)
    task_ids = []
    for _ in range(3):
        blob = await send(hasty_pool, b"weights")
        task_ids.append(await submit_with(parts, pool, blob))
    for task_id in task_ids[:-1]:
        await cancel.cancel(parts, pool.alice, task_id)
    await collected(parts)
    await file_access.of_account(parts, pool.alice, blob.sha256)
    await cancel.cancel(parts, pool.alice, task_ids[-1])
    await collected(parts)
    assert set((await rows(pool)).values()) == {0}
    await check_books(pool)


async def test_a_pinned_blob_is_checked_again_when_its_pin_ends(pool: Pool) -> None:
    await send(pool, b"weights")
    hour = "UPDATE blob_claims SET pinned_until = now() + interval '1 hour', look_at = now()"
    await pool.sql(hour)
    await collected(hurried(pool))
    assert await pool.sql("SELECT look_at = pinned_until FROM blob_claims")


async def test_unreferenced_uploads_of_an_ended_attempt_are_deleted(pool: Pool) -> None:
    """An attempt has sent it, never said what for, and ended; the task itself is kept for long."""
    node_id, grant = await pool.started()
    await send_from_node(pool, node_id, grant, b"never said what for")
    parts = hurried(pool, keep_results_seconds=86_400.0)
    await collected(parts)
    assert (await rows(pool))["blob_claims"] == 1
    await pool.finish(grant)
    await collected(parts)
    assert set((await rows(pool)).values()) == {0}
    await check_books(pool)


async def test_files_results_checkpoint_and_log_go_with_the_policy(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await pool.say(node_id, lease_of(grant), 0, "a line")
    added_files = AddFiles(lease_of(grant), (AddedFile("out", b"small"),))
    await file_access.add(pool.services, pool.bobs, node_id, added_files)
    checkpoint = await send_from_node(pool, node_id, grant, b"a checkpoint")
    request = KeepCheckpoint(lease_of(grant), checkpoint)
    await file_access.keep_checkpoint(pool.services, pool.bobs, node_id, request)
    await send_from_node(pool, node_id, grant, b"never said what for")
    await pool.finish(grant)
    task_files = await file_access.of_task(pool.services, pool.alice, grant.task_id, None, None, 10)
    assert task_files.kept_until is not None and not task_files.cleared
    log = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 0)
    assert log.pieces and not log.cleared
    await collected(hurried(pool))
    assert await pool.services.blobs.list("") == []
    assert set((await rows(pool)).values()) == {0}
    task_files = await file_access.of_task(pool.services, pool.alice, grant.task_id, None, None, 10)
    assert task_files.files == [] and task_files.cleared
    log = await attempt_log.read_log(pool.services, pool.alice, grant.task_id, None, 0)
    assert log.complete and log.cleared and not log.elsewhere and log.pieces == []
    assert (await pool.task(grant.task_id)).state == "succeeded", "what it was stays"
    (result,) = await ask(pool, grant.task_id)
    assert result.detail == "its results have been deleted"
    await check_books(pool)


async def test_files_of_a_task_are_deleted_in_parts(pool: Pool) -> None:
    """No transaction is long, however many files an array has left."""
    node_id, grant = await pool.started()
    added_files = tuple(AddedFile(f"out-{number}", b"small") for number in range(5))
    await file_access.add(pool.services, pool.bobs, node_id, AddFiles(lease_of(grant), added_files))
    await pool.finish(grant)
    steps = []
    for _ in range(3):
        async with pool.services.database.transaction() as connection:
            is_all = await store_collect.clear_task(connection, grant.task_id, 2)
        steps.append((is_all, await pool.sql("SELECT count(*) FROM task_blobs")))
    assert steps == [(False, 3), (False, 1), (True, 0)]


async def test_a_task_that_is_cleared_in_part_has_given_nothing(pool: Pool) -> None:
    """Whoever asks meanwhile is not sent round for what is gone."""
    node, task = await pool.offer(), await call(pool, items=3)
    grant = await give(pool, node, task.id, 0, 3)
    items = [returned(grant, item, item + 1) for item in range(3)]
    finish = Finished(lease_of(grant), EndReason.COMPLETED, 0)
    assert await pool.report(node.node_id, *items, finish) == ["accepted"] * 4
    (result,) = await ask(pool, task.id)
    assert result.behind == 3
    async with pool.services.database.transaction() as connection:
        assert not await store_collect.clear_task(connection, task.id, 2)
    assert await pool.sql("SELECT count(*) FROM results") == 1
    for offset in (0, 1, 3):
        (result,) = await ask(pool, task.id, offset)
        assert (result.pieces, result.has_more) == ([], False)


async def test_claims_that_are_due_are_found_without_a_look_at_the_others(pool: Pool) -> None:
    """An account may have a million; each kept checkpoint makes one due. Nobody has analysed."""
    await send(pool, b"weights")
    await pool.sql(
        "INSERT INTO blobs (sha256, size_bytes, object_key)"
        " SELECT sha256(number::text::bytea), 1, 'objects/' || number"
        " FROM generate_series(1, 3000) AS number"
    )
    await pool.sql(
        "INSERT INTO blob_claims (account_id, sha256, size_bytes, pinned_until, look_at)"
        " SELECT $1, sha256, 1, now() + interval '1 day', now() + interval '1 day' FROM blobs"
        " WHERE object_key ~ '^objects/[0-9]+$'",
        pool.alice,
    )
    await pool.sql("UPDATE blob_claims SET look_at = now() WHERE size_bytes > 1")
    async with pool.services.database.transaction() as connection:
        statement, *values = store_collect._sql.look_at(account_id=pool.alice, limit=500)
        plan = await connection.fetch(f"EXPLAIN (ANALYZE) {statement}", *values)
    plan_text = "\n".join(line for (line,) in plan)
    assert "blob_claims_due" in plan_text and "Rows Removed" not in plan_text, plan_text


async def test_an_old_checkpoint_goes_while_the_task_runs(pool: Pool) -> None:
    node_id, grant = await pool.started()
    for step in (b"first", b"second"):
        blob = await send_from_node(pool, node_id, grant, step)
        request = KeepCheckpoint(lease_of(grant), blob)
        await file_access.keep_checkpoint(pool.services, pool.bobs, node_id, request)
    await collected(hurried(pool))
    with pytest.raises(NotFound):
        await file_access.of_account(pool.services, pool.alice, ref(b"first").sha256)
    await file_access.of_account(pool.services, pool.alice, ref(b"second").sha256)
    await check_books(pool)


async def test_an_idle_upload_is_dropped(pool: Pool) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"weights"))
    await collected(pool.services)
    assert (await rows(pool))["uploads"] == 1
    await collected(hurried(pool))
    with pytest.raises(NotFound):
        await upload.of_account(pool.services, pool.alice, new_upload.upload_id)
    await check_books(pool)


async def test_only_remains_of_a_crash_are_removed(pool: Pool) -> None:
    new_upload = await upload.begin(pool.services, pool.alice, ref(b"under way"))
    await send(pool, b"weights")
    hour = first_id_at("upload", datetime.now(UTC) - timedelta(hours=2))
    young = first_id_at("upload", datetime.now(UTC))
    object_keys = {
        name: upload.new_object_key(name) for name in (hour, young, new_upload.upload_id)
    }
    for key in (
        *object_keys.values(),
        f"uploads/{hour}/0000000",
        f"uploads/{new_upload.upload_id}/0000000",
    ):
        await pool.services.blobs.put(key, b"left behind")
    await pool.sql("UPDATE uploads SET used_at = now() + interval '1 hour'")
    await garbage.sweep_orphans(pool.services)
    stored_keys = await pool.services.blobs.list("")
    assert object_keys[hour] not in stored_keys and f"uploads/{hour}/0000000" not in stored_keys
    assert object_keys[young] in stored_keys and object_keys[new_upload.upload_id] in stored_keys
    assert f"uploads/{new_upload.upload_id}/0000000" in stored_keys
    assert len(stored_keys) == 4, "and the blob itself"


async def test_a_failing_step_does_not_block_others(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await upload.begin(pool.services, pool.alice, ref(b"weights"))
    await asyncio.sleep(0.005)
    await pool.sql("ALTER TABLE results RENAME TO elsewhere")
    task = await pool.submit()
    await cancel.cancel(pool.services, pool.alice, task.id)
    await asyncio.sleep(0.005)
    await GarbageLoop(hurried(pool)).run_once()
    assert (await rows(pool))["uploads"] == 0


async def test_a_task_that_cannot_be_cleared_does_not_block_others(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = [await pool.started() for _ in range(2)]
    grants = [grant for _, grant in started]
    for node_id, grant in started:
        await pool.say(node_id, lease_of(grant), 0, "a line")
        await pool.finish(grant)
    blobs = pool.services.blobs
    list_them = blobs.list

    async def list_some(prefix: str) -> list[str]:
        if prefix == attempt_log.log_prefix(grants[0].attempt_id):
            raise Unavailable("That part of the disk is broken.")
        return await list_them(prefix)

    monkeypatch.setattr(blobs, "list", list_some)
    await asyncio.sleep(0.005)
    await garbage.clear_tasks(hurried(pool))
    uncleared_ids = await pool.sql("SELECT array_agg(id) FROM tasks WHERE cleared_at IS NULL")
    assert uncleared_ids == [grants[0].task_id]


async def test_age_is_measured_by_the_clock_of_the_database(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance whose clock is ahead takes nothing away that others have just put."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Ahead":
            return cls.fromtimestamp(time.time() + 86_400, tz)

    monkeypatch.setattr(garbage, "datetime", Ahead, raising=False)
    key = upload.new_object_key(first_id_at("upload", datetime.now(UTC)))
    await pool.services.blobs.put(key, b"young")
    await garbage.sweep_orphans(pool.services)
    assert await pool.services.blobs.list("objects/") == [key]


async def test_the_leader_removes_unclaimed_blobs(pool: Pool) -> None:
    await send(pool, b"weights")
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    leading = asyncio.create_task(LeadershipLoop(replace(hurried(pool), instance="me")).run())
    try:
        async with asyncio.timeout(30):
            while await pool.services.blobs.list(""):
                await asyncio.sleep(0.01)
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)


async def test_uploads_and_submissions_win_or_lose_against_collection_but_never_by_half(
    pool: Pool,
) -> None:
    """Everything is forgotten at once, and looked for all the time: the worst of all worlds."""
    parts, contents = hurried(pool), [bytes([n]) * 5000 for n in range(3)]
    hasty_pool = Pool(parts, pool.alice, pool.bob, pool.leads)
    rounds = {"taken": 0, "refused": 0}
    is_over = asyncio.Event()

    async def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(40):
            data = rng.choice(contents)
            with suppress(NotFound):  # it was given up in the middle of it
                await send(hasty_pool, data)
            try:
                task_id = await submit_with(parts, pool, ref(data))
            except InvalidInput:
                rounds["refused"] += 1
                continue
            rounds["taken"] += 1
            await asyncio.sleep(rng.random() / 100)
            assert await read(parts, pool, ref(data)) == data
            await cancel.cancel(parts, pool.alice, task_id)

    async def sweep_up() -> None:
        while not is_over.is_set():
            await collected(parts)

    collecting = asyncio.create_task(sweep_up())
    try:
        await asyncio.gather(*(work(seed) for seed in range(4)))
    finally:
        is_over.set()
        await collecting
    assert rounds["taken"] > 20, rounds
    await collected(parts)
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    await collected(parts)
    await check_books(pool)
    assert set((await rows(pool)).values()) == {0}


async def read(services: Services, pool: Pool, blob: BlobRef) -> bytes:
    stored = await file_access.of_account(services, pool.alice, blob.sha256)
    stream = services.blobs.stream(stored.object_key, 0, blob.size_bytes)
    return b"".join([piece async for piece in stream])


async def test_a_running_backup_keeps_what_its_snapshot_may_name(pool: Pool) -> None:
    await send(pool, b"weights")
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    async with pool.services.database.transaction() as connection:
        await backups.begin(connection, "backup_1", is_encrypted=False)
    await collected(hurried(pool))
    await collected(hurried(pool))
    assert len(await pool.services.blobs.list("objects/")) == 1
    async with pool.services.database.transaction() as connection:
        assert await backups.renew(connection, "backup_1")
        assert await backups.latest_finished_at(connection) is None
        await backups.finish(connection, "backup_1", backups.BackupResult(10, 10, 1, 0))
        assert await backups.latest_finished_at(connection) is not None
    await collected(hurried(pool))
    assert await pool.services.blobs.list("objects/") == []
    await check_books(pool)


async def test_a_killed_backup_guards_for_a_minute_only(pool: Pool) -> None:
    await send(pool, b"weights")
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    async with pool.services.database.transaction() as connection:
        await backups.begin(connection, "backup_1", is_encrypted=False)
    await pool.sql("UPDATE backups SET guarded_until = guarded_until - interval '61 seconds'")
    await collected(hurried(pool))
    await collected(hurried(pool))
    assert await pool.services.blobs.list("objects/") == []


async def test_a_backup_waits_for_a_removal_that_has_begun(pool: Pool) -> None:
    """Else its snapshot would have the row, and the object would be gone."""
    database = pool.services.database
    async with database.transaction() as removing:
        assert await backups.may_remove(removing)
        async with database.transaction() as connection:
            opening = asyncio.create_task(backups.begin(connection, "backup_1", is_encrypted=False))
            while not await pool.sql("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                assert not opening.done()
            await removing.execute("SELECT 1")
            assert not opening.done()
            # Ends the removal's transaction; only then the backup begins.
            await removing.execute("COMMIT")
            await opening
            await removing.execute("BEGIN")
