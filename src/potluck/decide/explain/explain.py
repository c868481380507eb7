"""Explains why a task waits: which nodes refuse it and why, what would help, when it may start."""

from collections import Counter
from collections.abc import Mapping

from potluck.decide.account import SchedulerAccount
from potluck.decide.explain.node import (
    NodeExplained,
    Queue,
    WaitingLine,
    explain_node,
)
from potluck.decide.explain.sentences import Explained, waiting_reason
from potluck.decide.explain.suggestions import changes
from potluck.decide.order.interface import OrderPolicy, Turn
from potluck.decide.pool.capacity import Capacity
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.suitable_devices import Suitability
from potluck.decide.queue.task_groups import Halt, Lines
from potluck.decide.reservations.forecast import Foresight
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import WaitingReason


class Explainer:
    def __init__(
        self,
        order: OrderPolicy,
        lines: Lines,
        accounts: Mapping[AccountId, SchedulerAccount],
        pool: tuple[Capacity, Suitability],
        foresight: Foresight,
    ) -> None:
        self._order = order
        self._lines = lines
        self._accounts = accounts
        self._capacity, self._suitability = pool
        self._foresight = foresight

    def reason(self, task: WaitingTask, halt: Halt) -> WaitingReason:
        """The short reason, which is the same for the whole task group."""
        counts = self._capacity.refusals(task) if halt is Halt.ROOM else Counter[Refusal]()
        return waiting_reason(halt, counts, self._suitability.node_count)

    def explain(self, task_id: TaskId, now: float) -> Explained | None:
        """The full explanation; None if the task does not wait here."""
        task = self._lines.task(task_id)
        line = None if task is None else self._lines.line_of(task)
        if task is None or line is None:
            return None
        refusals = self._capacity.refusals(task)
        suitable, nodes = self._suitability.devices(task), self._suitability.node_count
        if line.halt is Halt.CREDIT and (dear := nodes - refusals.total()) > 0:
            refusals[Refusal.CREDIT] = dear  # they have capacity: only the price is wrong
        # A task that no node could ever take has no position in the order.
        is_in_order = suitable or not nodes
        forecast = None
        if not line.halt.is_of_account:
            place = (line.shape, 1 + self._lines.ahead_in_shape(task))
            forecast = self._foresight.forecast(task, place, suitable, now)
        return Explained(
            reason=waiting_reason(line.halt, refusals, nodes),
            nodes=nodes,
            refusals=dict(refusals.most_common()),
            changes=changes(task, self._suitability.kinds()),
            position=self._position(task, now) if is_in_order else None,
            forecast=forecast,
        )

    def explain_node(self, node_id: NodeId, running: int) -> NodeExplained | None:
        """Why a node gets no work; None if the scheduler does not know the node."""
        room = self._capacity.pool.get(node_id)
        if room is None:
            return None
        lines = [
            WaitingLine(entry[2], self._lines.count(line), line.halt)
            for line in self._lines.lines()
            if (entry := self._lines.first(line)) is not None
        ]
        labels = frozenset[str]().union(*(each.node.labels for each in self._capacity.pool))
        queue = Queue(lines, len(self._lines), labels)
        return explain_node(room, queue, self._capacity.want_of, running)

    def _position(self, task: WaitingTask, now: float) -> int:
        """Its position in the order; 1 is next.

        An account that is served first puts at most one task more before it than its own account.
        """
        ahead = self._lines.ahead_in_account(task)
        firsts = self._lines.firsts()
        places = sorted(
            (self._order.between(Turn(first, self._accounts[each], now)), each, count)
            for each, (first, count) in firsts.items()
        )
        others = 0
        for _, account_id, count in places:
            if account_id == task.account_id:
                break
            others += min(count, ahead + 1)
        return 1 + ahead + others
