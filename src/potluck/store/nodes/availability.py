"""Whether devices take new work: set by their node or their owner, whichever was later."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from potluck.model.device import Availability
from potluck.model.ids import DeviceId, NodeId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.device_status import DeviceStatus

_sql = load("availability")


class AvailabilityChange(Struct, frozen=True):
    """The change of one device."""

    device_id: DeviceId
    uuid: str
    before: Availability
    availability: Availability
    why: str

    @property
    def is_closed(self) -> bool:
        """It took new work before, and does not now."""
        available = Availability.AVAILABLE
        return self.before is available and self.availability is not available


async def record_statuses(
    connection: Connection, node_id: NodeId, wish: int, statuses: Sequence[DeviceStatus]
) -> list[AvailabilityChange]:
    """Returns the changes. With requests pending after `wish`, no device is made available."""
    await lock_node(connection, node_id)
    rows = await connection.fetch(*_sql.tell(node_id=node_id, last_wish=wish, statuses=statuses))
    changes = [
        AvailabilityChange(
            row["id"],
            row["uuid"],
            Availability(row["before"]),
            Availability(row["availability"]),
            row["why"],
        )
        for row in rows
    ]
    return sorted(changes, key=lambda change: change.device_id)


async def lock_node(connection: Connection, node_id: NodeId) -> None:
    """Before any of its devices is changed."""
    await connection.execute(*_sql.lock_node(node_id=node_id))


async def withdraw(
    connection: Connection,
    node_id: NodeId,
    uuids: Collection[str],
    availability: Availability,
    why: str,
) -> None:
    """At the owner's request; the caller has locked the node."""
    await connection.execute(
        *_sql.withdraw(node_id=node_id, uuids=list(uuids), availability=availability, why=why)
    )
