"""Removes data that is no longer needed, but nothing that may be needed in a moment.

Tasks lose their files, results and logs after the retention time; accounts lose blobs that no task
names; bytes without an account are marked, and removed later if still unused. An object is removed
only after the row that named it; a crash in between leaves orphans for the sweep. Nothing that a
row names is removed while a backup runs.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import structlog

from potluck.model.ids import ALPHABET, TaskId, first_id_at
from potluck.server.flow.execute.attempt_log import log_prefix
from potluck.server.flow.submit.upload import drop_parts, object_prefix, upload_id_of
from potluck.server.services import Services
from potluck.store import backups
from potluck.store.database import Connection
from potluck.store.files import blobs, garbage, uploads

log = structlog.get_logger()

T = TypeVar("T")

# Keeps transactions short.
_BATCH = 500
_MAX_FAILED = 10


async def clear_tasks(services: Services) -> None:
    """A task that cannot be cleared does not block the others; many failures are an error."""
    retention = timedelta(seconds=services.settings.keep_results_seconds)
    failed: list[TaskId] = []
    while due := await _query(
        services, lambda c: garbage.tasks_to_clear(c, retention, _BATCH, failed)
    ):
        for task_id in due:
            try:
                if not await _clear(services, task_id):
                    return
            except Exception:
                if len(failed) == _MAX_FAILED:
                    raise
                log.exception("a task could not be cleared", task_id=task_id)
                failed.append(task_id)


async def _clear(services: Services, task_id: TaskId) -> bool:
    """Logs first: while they are counted, the task is found again. False while a backup runs."""
    async with services.database.transaction() as connection:
        if not await backups.may_remove(connection):
            return False
        attempt_ids = await garbage.attempts_with_logs(connection, task_id)
    for attempt_id in attempt_ids:
        await services.blobs.delete(await services.blobs.list(log_prefix(attempt_id)))
    while not await _query(services, lambda c: garbage.clear_task(c, task_id, _BATCH)):
        pass
    return True


async def drop_idle_uploads(services: Services) -> None:
    retention = timedelta(seconds=services.settings.upload_idle_seconds)
    await _query(services, lambda c: garbage.delete_held(c, retention))
    await _query(services, lambda c: uploads.delete_finished(c, retention))
    idle = await _query(services, lambda c: uploads.list_idle(c, retention, _BATCH))
    for upload_id, account_id in idle:
        async with services.database.transaction() as connection:
            await blobs.lock_use(connection, account_id)
            is_gone = await uploads.drop_idle(connection, upload_id, retention)
        if is_gone:
            await drop_parts(services, upload_id)


async def release_unused_claims(services: Services) -> None:
    for account_id in await _query(services, lambda c: garbage.accounts_to_check(c, 10_000)):
        count = _BATCH
        while count == _BATCH:
            async with services.database.transaction() as connection:
                await blobs.lock_use(connection, account_id)
                count = await garbage.release_claims(connection, account_id, _BATCH)


async def remove_marked(services: Services) -> None:
    wait = timedelta(seconds=services.settings.collect_wait_seconds)

    async def remove(connection: Connection) -> list[str] | None:
        if not await backups.may_remove(connection):
            return None
        return await garbage.remove_marked(connection, wait, _BATCH)

    while (gone := await _query(services, remove)) is not None:
        await services.blobs.delete(gone)


async def sweep_orphans(services: Services) -> None:
    """Removes objects and parts without a row, left by a crash."""
    for shard in ALPHABET:
        await _sweep_objects(services, await services.blobs.list(object_prefix(shard)))
    upload_ids = {key.split("/")[1] for key in await services.blobs.list("uploads/")}
    active = await _query(services, lambda c: uploads.find_active_ids(c, sorted(upload_ids)))
    for upload_id in upload_ids - active:
        await drop_parts(services, upload_id)


async def _sweep_objects(services: Services, keys: list[str]) -> None:
    """Keeps young objects and those of running uploads: a row may name them in a moment.

    An object without an upload and without a row never gets one: both change in one transaction.
    Small files have no upload; their name was made just before.
    """
    wait = timedelta(seconds=services.settings.collect_wait_seconds)
    then = await _query(services, lambda c: garbage.time_before_now(c, wait))
    youngest = first_id_at("upload", then)
    old = {key: upload_id_of(key) for key in keys if upload_id_of(key) < youngest}
    if not old:
        return
    under_way = await _query(services, lambda c: uploads.find_active_ids(c, sorted(old.values())))
    known_objects = await _query(services, lambda c: garbage.find_known_objects(c, sorted(old)))
    lost = [
        key
        for key, upload_id in old.items()
        if key not in known_objects and upload_id not in under_way
    ]
    await services.blobs.delete(lost)


async def _query(services: Services, query: Callable[[Connection], Awaitable[T]]) -> T:
    async with services.database.transaction() as connection:
        return await query(connection)
