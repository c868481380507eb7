"""The blocked task groups, by the event that must happen before they are tried again."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

from potluck.decide.queue.task_groups import BlockReason, Shape, TaskGroup, TaskGroups
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId

# A set in order of insertion, so that equal inputs give equal plans.
_GroupSet = dict[TaskGroup, None]
_Heap = list[tuple[float, int, TaskGroup]]
_FEW = 64


class BlockedGroups:
    """Groups of one shape fit, or do not fit, together. So when capacity for a shape may be free,
    only the first group of each account is released, and the next one once that was placed. With
    thousands of groups of one shape, the others cost nothing."""

    def __init__(self, groups: TaskGroups) -> None:
        self._groups = groups
        self._by_shape: dict[Shape, _GroupSet] = {}
        self._heaps: dict[Shape, dict[AccountId, _Heap]] = {}  # the same groups, in order
        self._opened: set[Shape] = set()  # the shapes for which capacity may be free
        self._kept: _GroupSet = {}
        self._of_account: dict[AccountId, _GroupSet] = {}

    def __contains__(self, shape: Shape) -> bool:
        """Whether groups of this shape are known not to fit."""
        return shape in self._by_shape and shape not in self._opened

    def add(self, group: TaskGroup, block_reason: BlockReason) -> None:
        group.block_reason = block_reason
        if block_reason is BlockReason.NO_CAPACITY:
            self._opened.discard(group.shape)
            self._by_shape.setdefault(group.shape, {})[group] = None
            self.reorder(group)
        elif not block_reason.is_of_account:
            self._kept[group] = None
        else:
            self._of_account.setdefault(group.key.account_id, {})[group] = None

    def reorder(self, group: TaskGroup) -> None:
        """Updates a group that does not fit after its first task has changed."""
        entry = self._groups.first(group)
        if entry is not None and group.blocked_position != entry[0]:
            group.blocked_position = entry[0]
            heaps = self._heaps.setdefault(group.shape, {})
            heap = heaps.setdefault(group.key.account_id, [])
            heapq.heappush(heap, (entry[0], group.number, group))
            if len(heap) > _FEW + 2 * len(self._by_shape[group.shape]):
                heap[:] = [each for each in heap if each[2].blocked_position == each[0]]
                heapq.heapify(heap)

    def shapes(self) -> Iterable[Shape]:
        return self._by_shape.keys()

    def group_of(self, shape: Shape) -> TaskGroup | None:
        """One of the groups of this shape that are known not to fit."""
        return next(iter(self._by_shape.get(shape, ())), None)

    def groups(self) -> Iterator[TaskGroup]:
        """The groups that wait for capacity, reserved or not."""
        for groups in self._by_shape.values():
            yield from groups
        yield from self._kept

    def first_tasks(self, most: int) -> list[WaitingTask]:
        """The first tasks of some of these groups."""
        entries = map(self._groups.first, islice(self.groups(), most))
        return [entry[2] for entry in entries if entry is not None]

    def discard(self, group: TaskGroup) -> None:
        """Forgets an empty group."""
        self._leave(group)
        self._kept.pop(group, None)
        self._of_account.get(group.key.account_id, {}).pop(group, None)

    def release_shape(self, shape: Shape) -> list[TaskGroup]:
        """Releases the first group of this shape of each account."""
        if shape in self._by_shape:
            self._opened.add(shape)
        firsts = [self._take_first(shape, each) for each in list(self._heaps.get(shape, ()))]
        return [group for group in firsts if group is not None]

    def release_next(self, group: TaskGroup) -> TaskGroup | None:
        """Releases the next group of the same shape and account, unless the last did not fit."""
        if group.shape not in self._opened:
            return None
        return self._take_first(group.shape, group.key.account_id)

    def _take_first(self, shape: Shape, account_id: AccountId) -> TaskGroup | None:
        heap = self._heaps.get(shape, {}).get(account_id, [])
        while heap:
            place, _, group = heapq.heappop(heap)
            if group.blocked_position != place or group.shape is not shape:
                continue
            entry = self._groups.first(group)
            if entry is not None and entry[0] != place:
                self.reorder(group)
                continue
            self._leave(group)
            if entry is not None:
                return group
        return None

    def _leave(self, group: TaskGroup) -> None:
        group.blocked_position = None
        groups = self._by_shape.get(group.shape, {})
        groups.pop(group, None)
        if not groups:
            self._by_shape.pop(group.shape, None)
            self._heaps.pop(group.shape, None)
            self._opened.discard(group.shape)

    def release_kept(self) -> list[TaskGroup]:
        released, self._kept = list(self._kept), {}
        return released

    def release_account(self, account_id: AccountId) -> list[TaskGroup]:
        return list(self._of_account.pop(account_id, {}))

    def release_credit(self) -> list[TaskGroup]:
        released = [
            group
            for groups in self._of_account.values()
            for group in groups
            if group.block_reason is BlockReason.CREDIT
        ]
        for group in released:
            del self._of_account[group.key.account_id][group]
        return released
