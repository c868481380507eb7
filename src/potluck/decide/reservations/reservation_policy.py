"""Chooses the tasks that get reservations: from time to time, the ones that have waited long."""

from collections.abc import Mapping

from potluck.decide.account import SchedulerAccount
from potluck.decide.order.interface import OrderPolicy, Place, Turn
from potluck.decide.pool.suitable_devices import Suitability
from potluck.decide.queue.blocked import BlockedGroups
from potluck.decide.queue.task_groups import TaskGroups
from potluck.decide.reservations.board import Claim
from potluck.decide.reservations.reserve import (
    Chances,
    Reservations,
    ReserveSettings,
    first_of_each,
)
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId


class ReservationPolicy:
    def __init__(
        self,
        order: OrderPolicy,
        queue: tuple[TaskGroups, BlockedGroups],
        accounts: Mapping[AccountId, SchedulerAccount],
        suitability: Suitability,
        reservations: Reservations,
        settings: ReserveSettings,
    ) -> None:
        self._order = order
        self._groups, self._blocked = queue
        self._accounts = accounts
        self._suitability = suitability
        self._reservations = reservations
        self._settings = settings
        self._planned_at: float | None = None

    def is_due(self, now: float) -> bool:
        """True once per interval."""
        at = self._planned_at
        if at is not None and now - at < self._settings.every_seconds:
            return False
        self._planned_at = now
        return True

    def plan(self, now: float) -> list[Claim]:
        """Renews the reservations; returns the tasks that must start now, before all others."""
        settings = self._settings
        if not self._order.promises:
            self._reservations.plan(self._first_in_order(now), None, now)
            return []
        chances = Chances(self._suitability.devices)
        tasks = self._groups.overdue(
            now - settings.soon_seconds,
            settings.most,
            lambda task: chances.has(task) and not self._is_blocked_by_account(task),
        )
        claims = self._reservations.plan(tasks, settings.promise_seconds, now)
        urgent = now - settings.urgent_seconds
        return [
            claim for claim in claims if claim.start <= now and claim.task.submitted_at <= urgent
        ]

    def _first_in_order(self, now: float) -> list[WaitingTask]:
        """The first tasks of blocked groups that have waited long, in the order of the policy."""
        waiting: list[tuple[Place, int, WaitingTask]] = []
        for group in self._blocked.groups():
            entry = self._groups.first(group)
            if entry and now - entry[2].submitted_at >= self._settings.after_seconds:
                turn = Turn(entry[2], self._accounts[group.key.account_id], now)
                waiting.append((self._order.between(turn), group.number, entry[2]))
        waiting.sort(key=lambda each: each[:2])
        tasks = (task for _, _, task in waiting)
        return first_of_each(tasks, self._settings, Chances(self._suitability.devices))

    def _is_blocked_by_account(self, task: WaitingTask) -> bool:
        group = self._groups.group_of(task)
        return group is not None and group.block_reason.is_of_account
