"""The pool's devices, one by one: where each is, what of it is free, and what it serves."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.device import Availability, DeviceDescription, DeviceKind, Standing
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.node import NodeState
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.consumer import DeviceUse, PoolDevice

_sql = load("devices")
_MOST = 2**63 - 1


class DeviceFilter(Struct, frozen=True):
    """What must be true of a device to be listed; what is not said is true of all."""

    kind: DeviceKind | None = None
    model: str | None = None  # a pattern, as tasks ask for models
    free_milli: int = 0  # at least so much could be given to a task now
    memory_bytes: int = 0  # at least so much is offered
    max_price_micro_per_hour: int | None = None  # of the whole device
    vendor: str | None = None  # a part of its name
    labels: tuple[str, ...] = ()  # that its node has, all of them
    min_reliability: float = 0.0


async def page(
    connection: Connection,
    viewer_id: AccountId,
    wanted: DeviceFilter,
    behind: DeviceId | None,
    limit: int,
) -> list[PoolDevice]:
    """Devices of nodes that have not left, in the order of their ids."""
    kinds = [wanted.kind] if wanted.kind else list(DeviceKind)
    rows = await connection.fetch(
        _sql.page,
        viewer_id,
        behind or "",
        kinds,
        _like(wanted.model),
        wanted.free_milli,
        limit,
        wanted.memory_bytes,
        _MOST if wanted.max_price_micro_per_hour is None else wanted.max_price_micro_per_hour,
        f"%{_escaped(wanted.vendor or '')}%",
        wanted.labels,
        wanted.min_reliability,
    )
    uses = await _uses(connection, viewer_id, rows)
    return [_view(row, uses.get(row["id"], [])) for row in rows]


async def _uses(
    connection: Connection, viewer_id: AccountId, devices: list[Any]
) -> dict[str, list[DeviceUse]]:
    nodes = list({row["node_id"] for row in devices})
    rows = await connection.fetch(_sql.uses, nodes, [row["id"] for row in devices], viewer_id)
    uses: dict[str, list[DeviceUse]] = {}
    for row in rows:
        use = DeviceUse(row["milli"], row["memory_bytes"], row["attempt_id"], row["task_id"])
        uses.setdefault(row["device_id"], []).append(use)
    return uses


async def of_node(connection: Connection, node_id: NodeId) -> dict[str, str]:
    """The uuids of the devices that a node shows, by all that they are called: uuids and ids."""
    rows = await connection.fetch(_sql.of_node, node_id)
    return {name: row["uuid"] for row in rows for name in (row["id"], row["uuid"])}


async def own(
    connection: Connection, device_id: DeviceId, account_id: AccountId
) -> tuple[NodeId, str]:
    """The node and the uuid of a device of one's own."""
    row = await connection.fetchrow(_sql.own, device_id, account_id)
    if row is None:
        raise no_such_device(device_id)
    return row["node_id"], row["uuid"]


def no_such_device(device_id: str) -> NotFound:
    return NotFound(
        f"You have no device {device_id}.", "`potluck gpus --kind any --each` lists all."
    )


def as_seen(description: DeviceDescription, is_mine: bool) -> DeviceDescription:
    """Whom an owner allows and denies, and when he is away, is told to nobody else."""
    if is_mine:
        return description
    return replace(description, terms=replace(description.terms, allow=(), deny=(), idle_minutes=0))


def seen_state(row: Any, is_mine: bool) -> tuple[Availability, str]:
    """Whether it takes new work, and why not. When an owner uses his machine is his own affair."""
    availability = Availability(row["availability"])
    if is_mine:
        return availability, row["why"]
    return Availability.PAUSED if availability is Availability.IN_USE else availability, ""


def chooses_accounts(description: DeviceDescription) -> bool:
    return bool(description.terms.allow or description.terms.deny)


def _like(pattern: str | None) -> list[str]:
    """`RTX 40*|A100` as PostgreSQL's LIKE has it: anywhere in the name, one of several."""
    if pattern is None:
        return ["%"]
    globs = _escaped(pattern).replace("*", "%").replace("?", "_").split("|")
    return [f"%{each.strip()}%" for each in globs]


def _escaped(text: str) -> str:
    """So that LIKE has no wildcards in it."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _view(row: Any, uses: list[DeviceUse]) -> PoolDevice:
    description = codec.decode_json(row["description"], DeviceDescription)
    availability, why = seen_state(row, row["is_mine"])
    return PoolDevice(
        id=row["id"],
        node_id=row["node_id"],
        node_name=row["node_name"],
        node_state=NodeState(row["node_state"]),
        description=as_seen(description, row["is_mine"]),
        standing=Standing(row["standing"]),
        free_milli=row["free_milli"],
        free_memory_bytes=row["free_memory_bytes"],
        is_mine=row["is_mine"],
        uses=uses,
        availability=availability,
        why=why,
        chooses_accounts=chooses_accounts(description),
        reliability=row["reliability"],
        labels=codec.decode_json(row["labels"], list[str]),
        own_tasks_only=row["own_tasks_only"],
    )
