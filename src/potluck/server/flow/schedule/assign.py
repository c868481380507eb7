"""Applies plans: a batch in one short transaction, guarded, with its holds and events.

A batch that fails is tried one by one, so that one bad assignment fails alone.
"""

from collections.abc import Sequence
from functools import partial

from potluck import __version__
from potluck.decide.ahead import GrantAhead
from potluck.decide.charges import hold_entries
from potluck.decide.types import Assignment
from potluck.model.error import PotluckError
from potluck.model.ids import AttemptId
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.services import Services
from potluck.store.attempts.assign import (
    Assigned,
    GrantedAhead,
    PlannedAttempt,
    assign,
    assign_ahead,
)
from potluck.store.database import Connection
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.new_ids import new_attempt_id
from potluck.store.scheduler.leader import Leadership, TermOver

# All rows of a batch stay locked until it commits.
BATCH = 50


async def apply_assignments(
    services: Services, leadership: Leadership, assignments: Sequence[Assignment]
) -> list[Assigned]:
    """Returns the assignments that were applied; the others no longer hold."""
    answers = await try_batch_then_each(
        assignments, partial(_apply, services, leadership), but=(PotluckError, TermOver)
    )
    return [answer for answer in answers.values() if answer is not None]


async def apply_ahead(
    services: Services, leadership: Leadership, grant: GrantAhead
) -> list[GrantedAhead]:
    """Returns the grants of one line that were applied; the others no longer hold."""
    holder_id = grant.holder.id

    async def apply(_: Sequence[AttemptId]) -> dict[AttemptId, list[GrantedAhead]]:
        return {holder_id: await _apply_ahead(services, leadership, grant)}

    # It may fail: the account may have spent its credit meanwhile.
    answers = await try_batch_then_each([holder_id], apply, but=(PotluckError, TermOver))
    return answers.get(holder_id, [])


async def _apply_ahead(
    services: Services, leadership: Leadership, grant: GrantAhead
) -> list[GrantedAhead]:
    settings = services.settings
    terms = (leadership, __version__, settings.fetch_seconds, settings.fee_basis_points)
    if not grant.hold_micro:
        async with services.database.statement() as connection:
            return await assign_ahead(connection, grant, new_attempt_id, *terms)
    async with services.database.transaction() as connection:
        granted = await assign_ahead(connection, grant, new_attempt_id, *terms)
        movements = [
            Movement(hold_entries(attempt.consumer_id, grant.hold_micro), attempt.attempt_id)
            for attempt in granted
        ]
        await ledger.append_many(connection, movements)
    return granted


async def _apply(
    services: Services, leadership: Leadership, assignments: Sequence[Assignment]
) -> dict[Assignment, Assigned | None]:
    planned = [PlannedAttempt(new_attempt_id(), assignment) for assignment in assignments]
    async with services.database.transaction() as connection:
        settings = services.settings
        assigned = await assign(
            connection, planned, leadership, settings.fetch_seconds, settings.fee_basis_points
        )
        await _hold(connection, assigned)
    return {**dict.fromkeys(assignments), **{applied.assignment: applied for applied in assigned}}


async def _hold(connection: Connection, assigned: Sequence[Assigned]) -> None:
    movements = [
        Movement(
            hold_entries(applied.consumer_id, applied.assignment.hold_micro), applied.attempt_id
        )
        for applied in assigned
    ]
    await ledger.append_many(connection, movements)
