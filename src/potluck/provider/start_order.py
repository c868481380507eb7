"""Which waiting attempts start now, and which are staged meanwhile. No I/O and no clock.

Attempts of one line run one after the other, in the order of their grants; those that were granted
ahead reserve nothing on their devices until they start.
"""

from collections.abc import Sequence

from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AttemptId
from potluck.model.task_spec import CommandSpec, ScriptSpec
from potluck.provider.holding import AttemptPhase, Holding
from potluck.provider.instruction import Instruction, StageAttempt, StartAttempt
from potluck.wire.provider import Grant

# How many waiting attempts are prepared at a time.
MOST_STAGED = 2


def start_waiting(holdings: Sequence[Holding]) -> list[Instruction]:
    """Starts what has room now, oldest first: no attempt overtakes another on a device. The next
    ones that were granted ahead are staged. Changes the phases of the holdings.
    """
    instructions: list[Instruction] = []
    taken = _taken_milli(holdings)
    busy_lines = {_line(holding) for holding in holdings if holding.occupies_devices}
    staged = 0
    for holding in holdings:
        if not holding.waits:
            continue
        is_next = _line(holding) not in busy_lines and not _is_unpaid(holding, holdings)
        if holding.grant and is_next and _has_room(holding, taken):
            instructions.append(StartAttempt(holding.grant))
            holding.phase, holding.grant, holding.has_run = AttemptPhase.RUNNING, None, True
            _take(holding, taken)
        elif holding.grant and staged < MOST_STAGED and _may_be_staged(holding.grant):
            staged += 1
            if holding.phase is AttemptPhase.WAITING:
                instructions.append(StageAttempt(holding.grant))
                holding.phase = AttemptPhase.STAGED
        # One that was granted ahead takes over what another of its line has.
        if not holding.has_run and holding.line is None:
            _take(holding, taken)
        busy_lines.add(_line(holding))
    return instructions


def _line(holding: Holding) -> AttemptId:
    return holding.line or holding.lease.attempt_id


def _is_unpaid(holding: Holding, holdings: Sequence[Holding]) -> bool:
    """Whether its time would not be paid yet: the server counts it from when it knows that the one
    before has ended.
    """
    return holding.is_priced and any(
        other.finished is not None and other.is_leased
        for other in holdings
        if other is not holding and other.is_of_line(holding.line)
    )


def _may_be_staged(grant: Grant) -> bool:
    """Those with a sandbox of their own; a function runs in an interpreter that others used."""
    is_ahead = grant.line is not None and grant.items_total is None
    return is_ahead and isinstance(grant.spec, ScriptSpec | CommandSpec)


def _taken_milli(holdings: Sequence[Holding]) -> dict[str, int]:
    taken: dict[str, int] = {}
    for holding in holdings:
        if holding.occupies_devices:
            _take(holding, taken)
    return taken


def _take(holding: Holding, taken_milli: dict[str, int]) -> None:
    for uuid, milli in holding.devices_milli.items():
        taken_milli[uuid] = taken_milli.get(uuid, 0) + milli


def _has_room(holding: Holding, taken_milli: dict[str, int]) -> bool:
    """A free device always has room, whatever share of it was granted."""
    return all(
        taken_milli.get(uuid, 0) == 0 or taken_milli[uuid] + milli <= WHOLE_DEVICE_MILLI
        for uuid, milli in holding.devices_milli.items()
    )
