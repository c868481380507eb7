"""Standing leases: a node that works on a call stream keeps its attempt while calls come.

New calls are granted to it when they are appended, or when it reports others, without a round of
the leader. The node fetches them by its poll, and knows by one number which ones are new. When
others wait for the device, the leader releases the attempt: the node ends it once its calls are
done. So nothing depends on a wake-up: an attempt that gets no news ends after its linger, and what
it did not do goes back to the queue.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.ids import AttemptId, NodeId
from potluck.model.task import ItemRange
from potluck.model.task_spec import FunctionSpec
from potluck.server import topics
from potluck.server.services import Services
from potluck.store.nodes.nodes import Owner
from potluck.store.tasks import streams
from potluck.store.tasks.streams import NO_ITEMS, NodeItems, StreamPoll
from potluck.wire import item_file
from potluck.wire.provider import CallPosition, Grant


async def fetch_items(
    services: Services,
    owner: Owner,
    node_id: NodeId,
    positions: Sequence[CallPosition],
    held: Sequence[AttemptId] = (),
) -> StreamPoll:
    """Also has the node's leases, if there are positions."""
    if not positions:
        return StreamPoll(NO_ITEMS)
    seconds = seen_precision(services)
    async with services.database.statement() as connection:
        return await streams.fetch(
            connection, services.vault, node_id, owner, positions, held, seconds
        )


def seen_precision(services: Services) -> float:
    """The precision of `last seen`: a fraction of the heartbeat interval changes no decision."""
    return services.settings.heartbeat_seconds / 20


def positions_of(grants: Sequence[Grant]) -> list[CallPosition]:
    """Those of attempts that were just granted: no item of them is known."""
    return [
        CallPosition(grant.attempt_id, 0) for grant in grants if grant.linger_seconds is not None
    ]


async def as_arrays(
    services: Services, owner: Owner, node_id: NodeId, grants: Sequence[Grant]
) -> list[Grant]:
    """For a node of an earlier version: a stream is an array of the items that are granted now."""
    new = (await fetch_items(services, owner, node_id, positions_of(grants))).items
    return [grant if grant.linger_seconds is None else _as_array(grant, new) for grant in grants]


def _as_array(grant: Grant, new: NodeItems) -> Grant:
    parts = [items for items in new.items if items.attempt_id == grant.attempt_id]
    values = [b""] * (parts[-1].end if parts else 0)
    for part in parts:
        values[part.start : part.end] = item_file.unpack(part.inputs, part.end - part.start)
    assert isinstance(grant.spec, FunctionSpec), "only functions are called"
    return replace(
        grant,
        spec=replace(grant.spec, inputs=Value(item_file.pack(values))),
        items=[ItemRange(part.start, part.end) for part in parts],
        items_total=len(values),
        linger_seconds=None,
    )


async def wake_nodes(services: Services, node_ids: Sequence[NodeId]) -> None:
    for node_id in sorted(set(node_ids)):
        await services.live.wake(topics.node(node_id))
