"""Reports about call streams: the simple case is one statement, which grants more items at once.

Most reports say that some items succeeded. If their attempt runs and has all of them to do, one
statement accepts them, stores their values and refills the attempt. Anything else is a report about
an array like any other: failures, large values, the first and the last report of an attempt.
"""

from collections.abc import Sequence

from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token
from potluck.server.flow.lease.standing_lease import wake_nodes
from potluck.server.flow.submit.append import stream_times
from potluck.server.flow.submit.stream_writes import write_stream
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.tasks import streams
from potluck.store.tasks.streams import AcceptedItems
from potluck.wire.provider import Finished, ItemsDone, Report

# Each is sealed and stored by itself; more are taken as those of any array, a part at a time.
_MOST_RUNS = 1_000


async def accept_simple(services: Services, node_id: NodeId, items: Sequence[Report]) -> bool:
    """Whether it took all of them; otherwise it took none."""
    attempt_id = items[0].lease.attempt_id
    stream = services.stream_attempts.task_of(attempt_id)
    if stream is None or not all(_is_simple(services, attempt_id, item) for item in items):
        return False
    runs = [run for item in items if isinstance(item, ItemsDone) for run in item.returned]
    if len(runs) > _MOST_RUNS:
        return False
    account_id, task_id = stream
    times = stream_times(services.settings)

    async def accept(connection: Connection) -> AcceptedItems | None:
        return await streams.accept(
            connection, services.vault, attempt_id, task_id, node_id, runs, times
        )

    accepted = await write_stream(services, account_id, task_id, accept)
    if accepted is None:
        return False
    await services.live.wake(topics.results(task_id))
    await services.live.wake(topics.task(task_id))
    await wake_nodes(services, accepted.node_ids)
    if accepted.has_pending:
        await services.live.wake(topics.SCHEDULE)
    return True


def _is_simple(services: Services, attempt_id: AttemptId, item: Report) -> bool:
    """Whether items of this attempt succeeded with small values, and its node says so."""
    lease = item.lease
    return (
        isinstance(item, ItemsDone)
        and not item.outcomes
        and lease.attempt_id == attempt_id
        and is_lease_token(services.keys.lease, attempt_id, lease.token)
        and all(run.start < run.end and run.values.blob is None for run in item.returned)
    )


async def refill_after(services: Services, task_id: TaskId, items: Sequence[Report]) -> None:
    """Grants waiting items to standing attempts, after reports that were not simple."""
    attempt_id = items[0].lease.attempt_id
    if services.stream_attempts.task_of(attempt_id) is None:
        return
    if isinstance(items[-1], Finished):
        services.stream_attempts.forget(attempt_id)
        return
    async with services.database.statement() as connection:
        node_ids = await streams.refill(connection, task_id, stream_times(services.settings))
    await wake_nodes(services, node_ids)
