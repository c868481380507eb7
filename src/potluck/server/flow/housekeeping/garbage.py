"""Collect: what nobody needs any more goes, and nothing that somebody is about to need.

Tasks lose what they left when the policy says so; accounts lose what no task of theirs names; bytes
that no account has are marked, and removed a while later if still nobody has them. An object goes
only after the row that named it: what a crash leaves between the two is swept up.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import structlog

from potluck.model.ids import ALPHABET, TaskId, first_id_at
from potluck.server.flow.execute.attempt_log import log_prefix
from potluck.server.flow.submit.upload import drop_parts, object_prefix, upload_id_of
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs, garbage, uploads

log = structlog.get_logger()

T = TypeVar("T")

# So that no transaction is long.
_AT_ONCE = 500
_MOST_FAILED = 10


async def clear_tasks(services: Services) -> None:
    """One that can not be cleared keeps no other waiting; many that can not mean something else."""
    kept = timedelta(seconds=services.settings.keep_results_seconds)
    failed: list[TaskId] = []
    while due := await _look(services, lambda c: garbage.to_clear(c, kept, _AT_ONCE, failed)):
        for task_id in due:
            try:
                await _clear(services, task_id)
            except Exception:
                if len(failed) == _MOST_FAILED:
                    raise
                log.exception("a task could not be cleared", task_id=task_id)
                failed.append(task_id)


async def _clear(services: Services, task_id: TaskId) -> None:
    """Logs first: as long as they are counted, they are looked for again."""
    for attempt_id in await _look(services, lambda c: garbage.attempts_with_logs(c, task_id)):
        await services.blobs.delete(await services.blobs.list(log_prefix(attempt_id)))
    while not await _look(services, lambda c: garbage.clear(c, task_id, _AT_ONCE)):
        pass


async def drop_idle_uploads(services: Services) -> None:
    kept = timedelta(seconds=services.settings.upload_idle_seconds)
    await _look(services, lambda c: garbage.forget_held(c, kept))
    await _look(services, lambda c: uploads.forget_finished(c, kept))
    for upload_id, account_id in await _look(services, lambda c: uploads.idle(c, kept, _AT_ONCE)):
        async with services.database.transaction() as connection:
            await blobs.lock_use(connection, account_id)
            is_gone = await uploads.drop_idle(connection, upload_id, kept)
        if is_gone:
            await drop_parts(services, upload_id)


async def release_unused_claims(services: Services) -> None:
    for account_id in await _look(services, lambda c: garbage.accounts_to_look_at(c, 10_000)):
        looked_at = _AT_ONCE
        while looked_at == _AT_ONCE:
            async with services.database.transaction() as connection:
                await blobs.lock_use(connection, account_id)
                looked_at = await garbage.give_up(connection, account_id, _AT_ONCE)


async def remove_marked(services: Services) -> None:
    wait = timedelta(seconds=services.settings.collect_wait_seconds)
    while (
        gone := await _look(services, lambda c: garbage.remove_marked(c, wait, _AT_ONCE))
    ) is not None:
        await services.blobs.delete(gone)


async def sweep_orphans(services: Services) -> None:
    """Objects and parts that no row tells of: somebody was killed between the two."""
    for shelf in ALPHABET:
        await _sweep_objects(services, await services.blobs.list(object_prefix(shelf)))
    found = {key.split("/")[1] for key in await services.blobs.list("uploads/")}
    for upload_id in found - await _look(services, lambda c: uploads.known(c, sorted(found))):
        await drop_parts(services, upload_id)


async def _sweep_objects(services: Services, keys: list[str]) -> None:
    """One whose upload is under way may be named in the next moment, and so may a young one.

    What an upload is no more, and no row names, no row ever will: both change at once. Small files
    come without an upload, with a name made just before.
    """
    wait = timedelta(seconds=services.settings.collect_wait_seconds)
    youngest = first_id_at("upload", await _look(services, lambda c: garbage.ago(c, wait)))
    old = {key: upload_id_of(key) for key in keys if upload_id_of(key) < youngest}
    if not old:
        return
    under_way = await _look(services, lambda c: uploads.known(c, sorted(old.values())))
    known = await _look(services, lambda c: garbage.known_objects(c, sorted(old)))
    lost = [
        key for key, upload_id in old.items() if key not in known and upload_id not in under_way
    ]
    await services.blobs.delete(lost)


async def _look(services: Services, question: Callable[[Connection], Awaitable[T]]) -> T:
    async with services.database.transaction() as connection:
        return await question(connection)
