"""Whether devices take new work: as their node says, or their owner, if that was later."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from potluck.model.device import Availability
from potluck.model.ids import DeviceId, NodeId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.device_status import DeviceStatus

_sql = load("availability")


class Change(Struct, frozen=True):
    """What became of a device."""

    device_id: DeviceId
    uuid: str
    before: Availability
    availability: Availability
    why: str

    @property
    def is_closed(self) -> bool:
        """It took new work until now."""
        available = Availability.AVAILABLE
        return self.before is available and self.availability is not available


async def tell(
    connection: Connection, node_id: NodeId, wish: int, statuses: Sequence[DeviceStatus]
) -> list[Change]:
    """What differs from what was known. Nothing is opened if more was asked for than `wish`."""
    await connection.execute(_sql.lock_node, node_id)
    rows = await connection.fetch(
        _sql.tell,
        node_id,
        wish,
        [each.uuid for each in statuses],
        [each.availability for each in statuses],
        [each.why for each in statuses],
    )
    changes = [
        Change(
            row["id"],
            row["uuid"],
            Availability(row["before"]),
            Availability(row["availability"]),
            row["why"],
        )
        for row in rows
    ]
    return sorted(changes, key=lambda each: each.device_id)


async def withdraw(
    connection: Connection,
    node_id: NodeId,
    uuids: Collection[str],
    availability: Availability,
    why: str,
) -> None:
    """At its owner's word; the caller has locked the node."""
    await connection.execute(_sql.withdraw, node_id, list(uuids), availability, why)
