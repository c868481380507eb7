"""Explain a node: why it gets no work, for its owner, from the scheduler's own mouth.

What the scheduler does not plan with is told from the database: a node that is silent or does not
ask for work, and devices that are not its own to offer.
"""

from datetime import UTC, datetime

from msgspec.structs import replace

from potluck.decide.explain.node import NodeExplained
from potluck.model.device import Availability, Standing
from potluck.model.ids import AccountId, NodeId
from potluck.model.node import NodeState
from potluck.server.leader import leader_rpc, scheduler_health
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.nodes import node_conditions
from potluck.store.nodes.node_conditions import OwnNode
from potluck.wire import codec
from potluck.wire.own_machines import AwayDevice, NodeExplanation, NodeReason

_UNREACHED = {
    NodeState.SILENT: "It has not been heard for a while, so it gets no work until it is back.",
    NodeState.LEFT: "It has left the pool, and gets no work until it registers again.",
}
_DOES_NOT_ASK = (
    "It has not asked for work since it came back, or let some lie that it was given; it gets none"
    " until it asks."
)
_HAS_NONE = "It has no device to offer."
_NOT_ITS_OWN = "None of its devices is its own to offer: they are bound to other nodes or wallets."


async def explain_node(
    services: Services, account_id: AccountId, node_id: NodeId
) -> NodeExplanation:
    async with services.database.transaction() as connection:
        node = await node_conditions.own_node(connection, node_id, account_id)
    known = _unplanned(node)
    if known is None and await scheduler_health.is_in_trouble(services):
        known = scheduler_health.REASON.sentence
    said = await leader_rpc.ask(services, node_id) if known is None else None
    if said is None:
        sentence = known or "The scheduler does not answer just now; ask again in a moment."
        answer = NodeExplanation(node_id, node.state, sentence)
    else:
        answer = codec.decode_json(said, NodeExplanation)
    return replace(answer, state=node.state, running=node.running, away=_away(node))


def _unplanned(node: OwnNode) -> str | None:
    """Why the scheduler does not know the node, if it does not."""
    if node.state in _UNREACHED:
        return _UNREACHED[node.state]
    if not node.is_polling:
        return _DOES_NOT_ASK
    if not node.devices:
        return _HAS_NONE
    if all(each.standing is not Standing.BOUND for each in node.devices):
        return _NOT_ITS_OWN
    return None


def _away(node: OwnNode) -> list[AwayDevice]:
    return [
        AwayDevice(each.id, each.model, each.availability, each.why)
        for each in node.devices
        if each.availability is not Availability.AVAILABLE
    ]


def answer_about_node(memory: LeaderMemory, node_id: NodeId) -> NodeExplanation:
    """The leader's part."""
    found = memory.known.scheduler.explain_node(node_id)
    if found is not None:
        return _explanation(memory, node_id, found)
    return NodeExplanation(
        node_id, NodeState.ONLINE, "The scheduler has not heard of it yet; ask again in a moment."
    )


def _explanation(memory: LeaderMemory, node_id: NodeId, found: NodeExplained) -> NodeExplanation:
    partly = "" if memory.is_loaded else " The scheduler is still reading the queue."
    return NodeExplanation(
        node_id=node_id,
        state=NodeState.ONLINE,
        sentence=f"{found.sentence}{partly}",
        running=found.running,
        waiting=found.waiting,
        reasons=[NodeReason(each.code, each.tasks, each.sentence) for each in found.reasons],
        changes=found.changes,
        at=datetime.fromtimestamp(memory.now, UTC),
    )
