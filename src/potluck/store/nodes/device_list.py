"""The pool's devices: where each is, its free capacity, and the attempts it serves."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.pool.model_patterns import matches_model
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Standing
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.node import NodeState
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.consumer import DeviceUse, PoolDevice

_sql = load("devices")
_NO_LIMIT = 2**63 - 1


class DeviceFilter(Struct, frozen=True):
    """Conditions for listing a device; an omitted one matches all."""

    kind: DeviceKind | None = None
    model: str | None = None  # a pattern, as in task requirements
    free_milli: int = 0  # minimum share that could be assigned now
    memory_bytes: int = 0  # minimum memory offered
    max_price_micro_per_hour: int | None = None  # for the whole device
    vendor: str | None = None  # a substring
    labels: tuple[str, ...] = ()  # all of which its node must have
    min_reliability: float = 0.0


async def page(
    connection: Connection,
    viewer_id: AccountId,
    selection: DeviceFilter,
    behind: DeviceId | None,
    limit: int,
) -> list[PoolDevice]:
    """Devices of nodes that have not left, in the order of their ids."""
    kinds = [selection.kind] if selection.kind else list(DeviceKind)
    max_price = selection.max_price_micro_per_hour
    models = await _matching_models(connection, selection.model)
    rows = await connection.fetch(
        *_sql.page(
            viewer_id=viewer_id,
            after_id=behind or "",
            kinds=kinds,
            models=[model for model, _ in models],
            sizes=[memory_bytes for _, memory_bytes in models],
            filter=selection,
            limit=limit,
            max_price_micro_per_hour=_NO_LIMIT if max_price is None else max_price,
            vendor=f"%{_escaped(selection.vendor or '')}%",
        )
    )
    uses = await _uses(connection, viewer_id, rows)
    return [_view(row, uses.get(row["id"], [])) for row in rows]


async def _matching_models(connection: Connection, patterns: str | None) -> list[tuple[str, int]]:
    """The names and memories on offer that match, compared as for a task."""
    if patterns is None:
        return []
    return [
        (row["model"], row["memory_bytes"])
        for row in await connection.fetch(*_sql.models())
        if matches_model(patterns, row["model"], row["memory_bytes"])
    ]


async def _uses(
    connection: Connection, viewer_id: AccountId, devices: list[Any]
) -> dict[str, list[DeviceUse]]:
    nodes = list({row["node_id"] for row in devices})
    rows = await connection.fetch(
        *_sql.uses(node_ids=nodes, device_ids=[row["id"] for row in devices], viewer_id=viewer_id)
    )
    uses: dict[str, list[DeviceUse]] = {}
    for row in rows:
        use = DeviceUse(row["milli"], row["memory_bytes"], row["attempt_id"], row["task_id"])
        uses.setdefault(row["device_id"], []).append(use)
    return uses


async def uuids_by_name(connection: Connection, node_id: NodeId) -> dict[str, str]:
    """The uuids of a node's devices, by uuid and by id."""
    rows = await connection.fetch(*_sql.of_node(node_id=node_id))
    return {name: row["uuid"] for row in rows for name in (row["id"], row["uuid"])}


async def find_own(
    connection: Connection, device_id: DeviceId, account_id: AccountId
) -> tuple[NodeId, str]:
    """The node and the uuid of the account's own device."""
    row = await connection.fetchrow(*_sql.own(device_id=device_id, account_id=account_id))
    if row is None:
        raise no_such_device(device_id)
    return row["node_id"], row["uuid"]


def no_such_device(device_id: str) -> NotFound:
    return NotFound(
        f"You have no device {device_id}.", "`potluck gpus --kind any --each` lists all."
    )


def redact_terms(description: DeviceDescription, is_mine: bool) -> DeviceDescription:
    """Allow and deny lists and idle times are visible only to the owner."""
    if is_mine:
        return description
    private = {"allow": (), "deny": (), "own_network": (), "idle_minutes": 0}
    return replace(description, terms=replace(description.terms, **private))


def visible_state(row: Any, is_mine: bool) -> tuple[Availability, str]:
    """Whether it takes new work, and why not. Use by the owner is private."""
    availability = Availability(row["availability"])
    if is_mine:
        return availability, row["why"]
    return Availability.PAUSED if availability is Availability.IN_USE else availability, ""


def chooses_accounts(description: DeviceDescription) -> bool:
    return bool(description.terms.allow or description.terms.deny)


def _escaped(text: str) -> str:
    """Escapes LIKE wildcards."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _view(row: Any, uses: list[DeviceUse]) -> PoolDevice:
    description = codec.decode_stored(row["description"], DeviceDescription)
    availability, why = visible_state(row, row["is_mine"])
    return PoolDevice(
        id=row["id"],
        node_id=row["node_id"],
        node_name=row["node_name"],
        node_state=NodeState(row["node_state"]),
        description=redact_terms(description, row["is_mine"]),
        standing=Standing(row["standing"]),
        free_milli=row["free_milli"],
        free_memory_bytes=row["free_memory_bytes"],
        is_mine=row["is_mine"],
        uses=uses,
        availability=availability,
        why=why,
        chooses_accounts=chooses_accounts(description),
        reliability=row["reliability"],
        labels=codec.decode_stored(row["labels"], list[str]),
        own_tasks_only=row["own_tasks_only"],
    )
