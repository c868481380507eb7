"""The task groups that may be placed, by account."""

import heapq

from potluck.decide.queue.task_groups import BlockReason, TaskGroup, TaskGroups
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId


class ReadyGroups:
    """Contains each group at most once, ordered by its first task."""

    def __init__(self, groups: TaskGroups) -> None:
        self._groups = groups
        self._heaps: dict[AccountId, list[tuple[float, int, TaskGroup]]] = {}

    def offer(self, group: TaskGroup) -> bool:
        """Adds a group, or updates it after its first task has changed; False if it is empty."""
        group.block_reason = BlockReason.NONE
        entry = self._groups.first(group)
        if entry is None:
            return False
        if group.ready_position != entry[0]:
            group.ready_position = entry[0]
            heap = self._heaps.setdefault(group.key.account_id, [])
            heapq.heappush(heap, (entry[0], group.number, group))
        return True

    def accounts(self) -> list[AccountId]:
        return list(self._heaps)

    def first(self, account_id: AccountId) -> WaitingTask | None:
        """The first task of the account; it stays in place."""
        heap = self._heaps.get(account_id)
        while heap:
            place, _, group = heap[0]
            entry = self._groups.first(group) if place == group.ready_position else None
            if entry is not None and entry[0] == place:
                return entry[2]
            heapq.heappop(heap)
            if place == group.ready_position:
                group.ready_position = None
                self.offer(group)  # by its current first task
        self._heaps.pop(account_id, None)
        return None

    def take(self, account_id: AccountId) -> tuple[TaskGroup, WaitingTask]:
        """Removes the account's first group; returns it with its first task.

        `first` must have returned a task just before."""
        _, _, group = heapq.heappop(self._heaps[account_id])
        group.ready_position = None
        assert group.head is not None
        return group, group.head[2]
