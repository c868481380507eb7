"""The status of the whole pool, for its operator: facts of the database, and the leader's queue."""

from collections import defaultdict

from msgspec import Struct

from potluck.server.leader import leader_rpc
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store import status
from potluck.wire import codec
from potluck.wire.status import PoolFacts, PoolStatus, QueueReason


class QueueReasons(Struct, frozen=True):
    """The leader's answer."""

    reasons: list[QueueReason]


async def read_status(services: Services) -> PoolStatus:
    async with services.database.transaction() as connection:
        facts = await status.read_facts(connection)
    async with services.database.transaction() as connection:
        ledger_sum_micro = await status.read_ledger_sum(connection)
    answer = await leader_rpc.ask(services, leader_rpc.QUEUE) if facts.waiting_tasks else None
    queue = [] if answer is None else codec.decode_json(answer, QueueReasons).reasons
    return PoolStatus(
        **{name: getattr(facts, name) for name in PoolFacts.__struct_fields__},
        readiness=services.health.shown,
        queue=queue,
        ledger_sum_micro=ledger_sum_micro,
    )


def answer_about_queue(memory: LeaderMemory) -> QueueReasons:
    """The leader's part. Most tasks first."""
    tasks: defaultdict[str, int] = defaultdict(int)
    oldest: defaultdict[str, float] = defaultdict(float)
    for (_, reason), depth in memory.known.scheduler.queue_depth().items():
        tasks[reason] += depth.tasks
        oldest[reason] = max(oldest[reason], memory.now - depth.oldest_at)
    reasons = [QueueReason(reason, tasks[reason], round(oldest[reason], 1)) for reason in tasks]
    return QueueReasons(sorted(reasons, key=lambda reason: -reason.tasks))
