"""Explains to its owner why a node gets no work.

Asks the scheduler; nodes it does not plan with are explained from the database.
"""

from datetime import UTC, datetime

from msgspec.structs import replace

from potluck.decide.explain.node import NodeExplained, reliability_sentence
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

_UNREACHABLE = {
    NodeState.SILENT: "It has been silent for a while and gets no work until it is back.",
    NodeState.LEFT: "It has left the pool and gets no work until it registers again.",
}
_NOT_POLLING = (
    "It has not polled for work since it came back, or did not fetch an assignment; it gets no"
    " work until it polls."
)
_NO_DEVICES = "It has no device to offer."
_BOUND_ELSEWHERE = "All of its devices are bound to other nodes or wallets."


async def explain_node(
    services: Services, account_id: AccountId, node_id: NodeId
) -> NodeExplanation:
    async with services.database.transaction() as connection:
        node = await node_conditions.own_node(connection, node_id, account_id)
    sentence_known = _unplanned(node)
    if sentence_known is None and await scheduler_health.is_failing(services):
        sentence_known = scheduler_health.REASON.sentence
    encoded = await leader_rpc.ask(services, node_id) if sentence_known is None else None
    if encoded is None:
        sentence = sentence_known or "The scheduler is not answering; try again in a moment."
        answer = NodeExplanation(node_id, node.state, sentence)
    else:
        answer = codec.decode_json(encoded, NodeExplanation)
    return replace(
        answer,
        state=node.state,
        running=node.running,
        away=_away(node),
        outlier_attempts=node.outlier_attempts,
        reliability=reliability_sentence(
            node.finished_attempts, node.lost_attempts, node.outlier_attempts
        ),
    )


def _unplanned(node: OwnNode) -> str | None:
    """Why the scheduler does not plan with the node, if it does not."""
    if node.state in _UNREACHABLE:
        return _UNREACHABLE[node.state]
    if node.is_cordoned:
        why = f" ({node.cordoned_for.rstrip('.')})" if node.cordoned_for else ""
        return f"An admin cordoned it{why}: it gets no new work, and running work finishes."
    if not node.is_polling:
        return _NOT_POLLING
    if not node.devices:
        return _NO_DEVICES
    if all(device.standing is not Standing.BOUND for device in node.devices):
        return _BOUND_ELSEWHERE
    return None


def _away(node: OwnNode) -> list[AwayDevice]:
    return [
        AwayDevice(device.id, device.model, device.availability, device.why)
        for device in node.devices
        if device.availability is not Availability.AVAILABLE
    ]


def answer_about_node(memory: LeaderMemory, node_id: NodeId) -> NodeExplanation:
    """The leader's part."""
    explained = memory.known.scheduler.explain_node(node_id)
    if explained is not None:
        return _explanation(memory, node_id, explained)
    return NodeExplanation(
        node_id, NodeState.ONLINE, "The scheduler does not know it yet; try again in a moment."
    )


def _explanation(
    memory: LeaderMemory, node_id: NodeId, explained: NodeExplained
) -> NodeExplanation:
    note = "" if memory.is_loaded else " The scheduler is still reading the queue."
    return NodeExplanation(
        node_id=node_id,
        state=NodeState.ONLINE,
        sentence=f"{explained.sentence}{note}",
        running=explained.running,
        waiting=explained.waiting,
        reasons=[
            NodeReason(reason.code, reason.tasks, reason.sentence) for reason in explained.reasons
        ],
        changes=explained.changes,
        at=datetime.fromtimestamp(memory.now, UTC),
    )
