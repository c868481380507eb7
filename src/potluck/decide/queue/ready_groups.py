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
            entry = None
            if place == group.ready_position:
                entry = group.head or self._groups.first(group)
            if entry is not None and entry[0] == place:
                return entry[2]
            heapq.heappop(heap)
            if place == group.ready_position:
                group.ready_position = None
                self.offer(group)  # by its current first task
        self._heaps.pop(account_id, None)
        return None

    def head(self, account_id: AccountId) -> tuple[TaskGroup, WaitingTask]:
        """The account's first group, with its first task; both stay in place.

        `first` must have returned a task just before."""
        group = self._heaps[account_id][0][2]
        assert group.head is not None
        return group, group.head[2]

    def take(self, account_id: AccountId) -> None:
        """Removes the account's first group."""
        _, _, group = heapq.heappop(self._heaps[account_id])
        group.ready_position = None

    def renew(self, account_id: AccountId) -> bool:
        """Updates the account's first group after its first task was served; removes it, and
        returns False, if it is empty now."""
        heap = self._heaps[account_id]
        group = heap[0][2]
        entry = self._groups.first(group)
        if entry is None:
            self.take(account_id)
            return False
        place = entry[0]
        if place != group.ready_position:
            group.ready_position = place
            heapq.heapreplace(heap, (place, group.number, group))
        return True
