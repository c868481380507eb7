"""Results in the order of the inputs, or as they come."""

import heapq
from collections import deque


class AsTheyCome:
    def __init__(self) -> None:
        self.ready: deque[object] = deque()

    def add(self, start: int, values: list[object]) -> None:  # noqa: ARG002 - wherever it is
        self.ready.extend(values)


class InOrder:
    """What came too early waits until all before it are there."""

    def __init__(self) -> None:
        self.ready: deque[object] = deque()
        self._early: list[tuple[int, list[object]]] = []
        self._next = 0

    def add(self, start: int, values: list[object]) -> None:
        heapq.heappush(self._early, (start, values))
        while self._early and self._early[0][0] == self._next:
            values = heapq.heappop(self._early)[1]
            self.ready.extend(values)
            self._next += len(values)
