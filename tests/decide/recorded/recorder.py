"""Everything a scheduler decides, as one digest: two that are equal decided the same, bit for bit.

A digest covers the plans with their waiting reasons, in their order, the claims behind each
reservation, and what it says when it is asked.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest import mock

import msgspec

from potluck.decide.reservations.board import Claim
from potluck.decide.reservations.reserve import Reservations
from potluck.decide.scheduler import Scheduler, SchedulerPlan
from potluck.decide.types import WaitingTask
from potluck.model.task import Requirements

_ENCODER = msgspec.json.Encoder(order="deterministic")
# Requirements that came later, which no recorded task has.
_LATER = tuple(
    f',"{name}":{msgspec.json.encode(getattr(Requirements(), name)).decode()}'.encode()
    for name in ("volumes", "network", "network_bytes", "own_wallet")
)
# Of assignments and places, which came later, too.
_LAST_FIELDS = re.compile(rb',"kind":"\w+","requested":null|,"requirements":null')


class Recorder:
    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def note(self, *values: object) -> None:
        encoded = _ENCODER.encode(values)
        for field in _LATER:
            encoded = encoded.replace(field, b"")
        self._digest.update(_LAST_FIELDS.sub(b"", encoded))

    @property
    def digest(self) -> str:
        """Enough of it to tell any two apart."""
        return self._digest.hexdigest()[:16]

    def note_plan(self, plan: SchedulerPlan) -> None:
        self.note(
            plan.assignments,
            plan.prompt,
            list(plan.waiting.items()),
            plan.emptied,
            plan.is_complete,
            plan.has_all_reasons,
        )

    def note_claims(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self.note(
                claim.task.id, claim.node_ids, claim.start, claim.latest, sorted(claim.behind)
            )


@contextmanager
def recorded() -> Iterator[Recorder]:
    """Notes the plans and claims of all schedulers that work meanwhile."""
    recorder = Recorder()
    plan, reserve = Scheduler.plan, Reservations.plan

    def noted_plan(self: Scheduler, *arguments: object) -> SchedulerPlan:
        made_plan = plan(self, *arguments)  # type: ignore[arg-type]
        recorder.note_plan(made_plan)
        return made_plan

    def noted_claims(
        self: Reservations, tasks: Iterable[WaitingTask], promise: float | None, now: float
    ) -> list[Claim]:
        claims = reserve(self, tasks, promise, now)
        recorder.note_claims(claims)
        return claims

    with (
        mock.patch.object(Scheduler, "plan", noted_plan),
        mock.patch.object(Reservations, "plan", noted_claims),
    ):
        yield recorder
