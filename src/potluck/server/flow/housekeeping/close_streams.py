"""Closes call streams that get no more calls, and ends closed ones that are done."""

from potluck.model.error import PotluckError
from potluck.server.flow.submit import append
from potluck.server.services import Services
from potluck.store.tasks import streams


async def close_streams_once(services: Services) -> None:
    async with services.database.statement() as connection:
        due = await streams.list_overdue(connection, services.settings.stream_seconds)
        due += await streams.list_unfinished(connection)
    for task_id, account_id in due:
        try:
            await append.close(services, account_id, task_id)
        except PotluckError:
            continue  # it has ended meanwhile; the next run finds what has not
