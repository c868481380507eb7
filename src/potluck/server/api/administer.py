"""Administration of what others own: the pool's status, history and events, labels, credit taken
back, all tasks, cordoned nodes."""

from typing import Annotated, Final

from litestar.params import QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from potluck.model.account import Scope
from potluck.model.error import Conflict, NotFound
from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind
from potluck.server.accounts import administration
from potluck.server.api.area import Area
from potluck.server.api.examples.names import ACCOUNT, EVENT, NODE, TASK, WALLET, at
from potluck.server.api.http.event_stream import stream
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor
from potluck.server.api.http.parameters import CallerRequest, IdempotencyKey, node_id_of
from potluck.server.api.http.time_params import Since, Until, moment
from potluck.server.api.notify import LastEventId, Position, position_of
from potluck.server.api.operate import account_id_of
from potluck.server.api.queue import States
from potluck.server.auth import idempotent_secret
from potluck.server.flow.notify import pool_event_stream
from potluck.server.flow.notify.pool_event_stream import PoolStreamItem
from potluck.server.pool_status import read_status
from potluck.server.services import Services
from potluck.store.status import read_history
from potluck.store.tasks import task_list
from potluck.store.tasks.task_list import TaskFilter
from potluck.wire import codec, routes
from potluck.wire.admin import (
    Cordon,
    PoolEvent,
    PoolEventPage,
    PoolTask,
    PoolTaskPage,
    RemoveNode,
    SetLabel,
    TakeCredit,
)
from potluck.wire.consumer import DeviceCounts, ServerReadiness
from potluck.wire.events import GAP, EventGap
from potluck.wire.status import (
    BackupStatus,
    EndCount,
    HistoryPoint,
    InstanceView,
    PoolHistory,
    PoolStatus,
    QueueReason,
)

OfAccount = Annotated[
    str | None,
    QueryParameter(
        name="account", max_length=64, required=False, description="Only tasks of this account."
    ),
]
OfKind = Annotated[TaskKind | None, QueryParameter(name="kind", required=False)]
Hours = Annotated[
    int, QueryParameter(ge=1, le=168, description="How far back it goes, in whole hours.")
]

# Examples.
_STATUS = PoolStatus(
    at=at(9, 45),
    readiness=ServerReadiness(
        "ok",
        "0.2.0",
        {"database": "ok", "leader": "ok"},
        "5f3a9c1e2b7d4086",
        "5f3a9c1e2b7d4086",
        182,
    ),
    schema_version="0021",
    instances=[InstanceView("5f3a9c1e2b7d4086", "0.2.0", at(8, 0), at(9, 45), is_leader=True)],
    term=3,
    waiting_tasks=12,
    oldest_waiting_at=at(9, 41),
    queue=[QueueReason("device_busy", 12, 240.0)],
    running_attempts=4,
    ended=[EndCount(TaskState.SUCCEEDED, None, 57)],
    nodes={"online": 3},
    cordoned_nodes=0,
    node_versions={"0.2.0": 3},
    devices={"gpu": DeviceCounts(1, 4, 0)},
    database_bytes=48_234_496,
    blob_bytes=7_340_032_000,
    backup=BackupStatus(at(3, 0), 7_388_000_000, 0),
    firing_alerts={"DeviceHot": 1},
    pending_alerts={"NodeLost": 1},
    ledger_sum_micro=0,
)

_HISTORY = PoolHistory(
    at(8, 45),
    at(9, 45),
    60,
    [HistoryPoint(at(9, 44), 57, 2, 0, 0.4, 2.1, 31.5, 240.0)],
    is_complete=True,
)
_EVENT = PoolEvent(
    *(EVENT, EventKind.TASK_FINISHED, at(12, 0, 9), ACCOUNT, WALLET, "Ada (robotics)", TASK),
    data={"state": "succeeded", "reason": "completed"},
)
_EVENTS = (
    ": still here\r\nid: 4710\r\n\r\n"
    f"event: task.finished\r\nid: 4711\r\ndata: {codec.encode_json(_EVENT).decode()}\r\n\r\n"
)

AREA: Final = Area(
    "administer",
    "For admins: the status of the whole pool, its history and events, labels of accounts, taking "
    "credit back, all tasks, and nodes that get no new work. An admin sees whose a task is, where "
    "it is and what it cost; not its name or content.",
)


@AREA.operation(
    routes.SET_LABEL,
    Scope.ADMIN,
    "Label an account",
    request=SetLabel("Ada (robotics)"),
    errors=(Conflict,),
    status_code=204,
)
async def set_label(
    account_id: str, data: SetLabel, request: CallerRequest, services: Services
) -> None:
    """Sets what admins call an account. Only admins see it; empty text removes it."""
    named = account_id_of(account_id)
    await administration.set_label(services, request.user.id, named, data.label)


@AREA.operation(
    routes.TAKE_CREDIT,
    Scope.ADMIN,
    "Take credit back",
    request=TakeCredit(5_000_000, "granted twice"),
    errors=(Conflict,),
    status_code=204,
)
async def take_credit(
    account_id: str,
    data: TakeCredit,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Takes available credit back, as a negative grant; credit that is held for running tasks
    stays. With an Idempotency-Key it is counted once."""
    named, actor = account_id_of(account_id), request.user.id
    idempotent = idempotent_secret.idempotent_request(
        services, actor, "take_credit", idempotency_key, (named, data)
    )
    await administration.take(services, actor, named, data, idempotent)


@AREA.operation(routes.POOL_STATUS, Scope.ADMIN, "Show the status of the pool", response=_STATUS)
async def pool_status(services: Services) -> PoolStatus:
    """Shows what an operator looks at first: readiness, instances, queue, nodes, recent ends,
    sizes, backup and ledger."""
    return await read_status(services)


@AREA.operation(
    routes.POOL_HISTORY, Scope.ADMIN, "Show throughput and latency over time", response=_HISTORY
)
async def pool_history(services: Services, hours: Hours = 24) -> PoolHistory:
    """Counts the tasks that ended, in about a hundred steps, with how long they waited and ran. In
    a pool with more than 100,000 of them, only the newest are counted."""
    async with services.database.statement() as connection:
        return await read_history(connection, hours, services.clock.now())


@AREA.operation(
    routes.LIST_POOL_EVENTS,
    Scope.ADMIN,
    "List the events of all accounts",
    response=PoolEventPage([_EVENT], "4711", "4711"),
)
async def list_pool_events(
    services: Services, cursor: Position = None, limit: Limit = 50
) -> PoolEventPage:
    """Lists events of tasks, nodes and devices, newest first, without the names of tasks. The steps
    of attempts are not among them."""
    return await pool_event_stream.page(services, position_of(cursor), limit)


@AREA.operation(
    routes.FOLLOW_POOL_EVENTS,
    Scope.ADMIN,
    "Follow the events of all accounts",
    response=_EVENTS,
    media_type="text/event-stream",
)
async def follow_pool_events(
    request: CallerRequest,
    services: Services,
    cursor: Position = None,
    last_event_id: LastEventId = None,
) -> ServerSentEvent:
    """Streams events, at most 50 a second; a `gap` says that more happened."""
    position = position_of(cursor if last_event_id is None else last_event_id)
    return stream(request, pool_event_stream.follow(services, position), _event_message)


def _event_message(followed: PoolStreamItem) -> ServerSentEventMessage:
    position = str(followed.position)
    if followed.content is None:
        return ServerSentEventMessage(data=None, id=position, comment="still here")
    kind = GAP if isinstance(followed.content, EventGap) else followed.content.kind.value
    return ServerSentEventMessage(
        event=kind, id=position, data=codec.encode_json(followed.content).decode()
    )


@AREA.operation(
    routes.LIST_POOL_TASKS,
    Scope.ADMIN,
    "List the tasks of all accounts",
    response=PoolTaskPage(
        [
            PoolTask(
                *(TASK, ACCOUNT, WALLET, TaskKind.SCRIPT, TaskState.RUNNING, at(9, 40), at(9, 41)),
                node_ids=[NODE],
                label="Ada (robotics)",
            )
        ],
        TASK,
    ),
    errors=(NotFound,),
)
async def list_pool_tasks(
    services: Services,
    cursor: Cursor = None,
    of_account: OfAccount = None,
    states: States = None,
    of_kind: OfKind = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> PoolTaskPage:
    """Lists tasks, newest first, filtered by account, state, kind and submission time. Names,
    arguments, logs, files and results are not shown."""
    first, last = (None if time is None else moment(time) for time in (since, until))
    filters = TaskFilter(tuple(states or ()), kind=of_kind, since=first, until=last)
    check_cursor(cursor, "task")
    before = None if cursor is None else TaskId(cursor)
    account_id = None if of_account is None else account_id_of(of_account)
    async with services.database.transaction() as connection:
        rows = await task_list.pool_page(connection, account_id, filters, before, limit)
    return PoolTaskPage(rows, rows[-1].id if len(rows) == limit else None)


@AREA.operation(
    routes.CORDON_NODE,
    Scope.ADMIN,
    "Cordon a node",
    request=Cordon("its disk is failing"),
    status_code=204,
)
async def cordon_node(
    node_id: str, data: Cordon, request: CallerRequest, services: Services
) -> None:
    """Stops new work on a node; running work finishes. Everyone in the pool sees it."""
    await administration.cordon(services, request.user.id, node_id_of(node_id), data.reason)


@AREA.operation(routes.UNCORDON_NODE, Scope.ADMIN, "Uncordon a node", status_code=204)
async def uncordon_node(node_id: str, request: CallerRequest, services: Services) -> None:
    """Allows new work on a node again."""
    await administration.uncordon(services, request.user.id, node_id_of(node_id))


@AREA.operation(
    routes.REMOVE_NODE,
    Scope.ADMIN,
    "Remove a silent node",
    request=RemoveNode("the machine was sold"),
    errors=(Conflict,),
    status_code=204,
)
async def remove_node(
    node_id: str, data: RemoveNode, request: CallerRequest, services: Services
) -> None:
    """Removes a node that sends no heartbeats, of any owner. Its devices are released, and its
    attempts go back to the queue. If its provider returns, it registers again."""
    await administration.remove_node(services, request.user.id, node_id_of(node_id), data.reason)
