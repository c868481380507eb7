"""Makes plans come true: a batch in one short transaction, guarded, told of, with its holds.

A batch that fails as a whole is tried one by one, so that one bad assignment fails alone.
"""

from collections.abc import Sequence

import structlog

from potluck.decide.charges import hold_entries
from potluck.decide.types import Assignment
from potluck.model.error import PotluckError
from potluck.server.services import Parts
from potluck.store.attempts.assign import Assigned, Planned, assign
from potluck.store.database import Connection
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.new_ids import new_attempt_id
from potluck.store.scheduler.leader import Leadership, TermOver

log = structlog.get_logger()

# Its rows are locked for as long as the whole batch takes.
BATCH = 50


async def apply(
    parts: Parts, leadership: Leadership, assignments: Sequence[Assignment]
) -> list[Assigned]:
    """Those of a batch that came true; the others no longer hold."""
    try:
        return await _apply(parts, leadership, assignments)
    except (PotluckError, TermOver):
        raise
    except Exception:
        if len(assignments) == 1:
            (lone,) = assignments
            log.exception("assignment failed", task_id=lone.task_id, node_id=lone.node_id)
            return []
        log.warning("a batch of assignments failed; trying one by one", exc_info=True)
    return [done for each in assignments for done in await apply(parts, leadership, [each])]


async def _apply(
    parts: Parts, leadership: Leadership, assignments: Sequence[Assignment]
) -> list[Assigned]:
    planned = [Planned(new_attempt_id(), each) for each in assignments]
    async with parts.database.transaction() as connection:
        assigned = await assign(connection, planned, leadership, parts.settings.fetch_seconds)
        await _hold(connection, assigned)
    return assigned


async def _hold(connection: Connection, assigned: Sequence[Assigned]) -> None:
    movements = [
        Movement(hold_entries(each.consumer_id, each.assignment.hold_micro), each.attempt_id)
        for each in assigned
    ]
    await ledger.append_many(connection, movements)
