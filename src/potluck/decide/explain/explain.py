"""Explains why a task waits: which nodes refuse it and why, what would help, when it may start."""

from collections import Counter
from collections.abc import Mapping

from potluck.decide.account import SchedulerAccount
from potluck.decide.explain.node import NodeExplained, Queue, WaitingGroup, explain_node
from potluck.decide.explain.sentences import Explained, waiting_reason
from potluck.decide.explain.suggestions import suggest_changes
from potluck.decide.order.interface import OrderPolicy, Turn
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.suitable_devices import Suitability
from potluck.decide.queue.task_groups import BlockReason, TaskGroups
from potluck.decide.reservations.forecast import StartForecaster
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import WaitingReason


class Explainer:
    def __init__(
        self,
        order: OrderPolicy,
        groups: TaskGroups,
        accounts: Mapping[AccountId, SchedulerAccount],
        pool: tuple[PoolCapacity, Suitability],
        forecaster: StartForecaster,
    ) -> None:
        self._order = order
        self._groups = groups
        self._accounts = accounts
        self._capacity, self._suitability = pool
        self._forecaster = forecaster

    def reason(self, task: WaitingTask, block_reason: BlockReason) -> WaitingReason:
        """The short reason, which is the same for the whole task group."""
        counts = (
            self._capacity.refusals(task)
            if block_reason is BlockReason.NO_CAPACITY
            else Counter[Refusal]()
        )
        return waiting_reason(block_reason, counts, self._suitability.node_count)

    def explain(self, task_id: TaskId, now: float) -> Explained | None:
        """The full explanation; None if the task does not wait here."""
        task = self._groups.task(task_id)
        group = None if task is None else self._groups.group_of(task)
        if task is None or group is None:
            return None
        refusals = self._capacity.refusals(task)
        suitable, nodes = self._suitability.devices(task), self._suitability.node_count
        if group.block_reason is BlockReason.CREDIT and (dear := nodes - refusals.total()) > 0:
            refusals[Refusal.CREDIT] = dear  # they have capacity: only the price is wrong
        # A task that no node could ever take has no position in the order.
        is_in_order = suitable or not nodes
        forecast = None
        if not group.block_reason.is_of_account:
            place = (group.shape, 1 + self._groups.ahead_in_shape(task))
            forecast = self._forecaster.forecast(task, place, suitable, now)
        return Explained(
            reason=waiting_reason(group.block_reason, refusals, nodes),
            nodes=nodes,
            refusals=dict(refusals.most_common()),
            changes=suggest_changes(task, self._suitability.kinds()),
            position=self._position(task, now) if is_in_order else None,
            forecast=forecast,
        )

    def explain_node(self, node_id: NodeId, running: int) -> NodeExplained | None:
        """Why a node gets no work; None if the scheduler does not know the node."""
        capacity = self._capacity.pool.get(node_id)
        if capacity is None:
            return None
        groups = [
            WaitingGroup(entry[2], self._groups.count(group), group.block_reason)
            for group in self._groups.groups()
            if (entry := self._groups.first(group)) is not None
        ]
        labels = frozenset[str]().union(*(each.node.labels for each in self._capacity.pool))
        queue = Queue(groups, len(self._groups), labels)
        return explain_node(capacity, queue, self._capacity.demand_of, running)

    def _position(self, task: WaitingTask, now: float) -> int:
        """Its position in the order; 1 is next.

        An account that is served first puts at most one task more before it than its own account.
        """
        ahead = self._groups.ahead_in_account(task)
        firsts = self._groups.firsts()
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
