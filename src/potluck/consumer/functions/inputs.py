"""The inputs of a map, pickled and divided into arrays."""

import time
from collections import deque
from collections.abc import Iterator

from potluck.consumer.functions.call import FunctionOrder
from potluck.consumer.functions.pickling import pickle_items
from potluck.model.blob import INLINE_BYTES
from potluck.wire import item_file

ARRAY_ITEMS = 10_000
_FEW_ITEMS = 1_000  # up to this many may need a blob; larger arrays are cut to fit the request
_ARRAY_BYTES = 8 * 2**20
_READ_ITEMS = 500  # pickled at a time
_READ_SECONDS = 0.1


class InputReader:
    """Reads and pickles inputs, at most one array ahead."""

    def __init__(self, order: FunctionOrder, inputs: Iterator[tuple[object, ...]]):
        self._order = order
        self._inputs = inputs
        self._unpickled: list[tuple[object, ...]] = []
        self._pickled: deque[bytes] = deque()
        self._bytes = 0
        self._unsent: list[bytes] = []
        self._is_over = False

    def next_items(self) -> list[bytes]:
        """The items of the next array; fewer if reading takes long. Returns the same ones until
        `sent` is called, so that none is lost when sending fails.
        """
        if not self._unsent:
            self._unsent = self._next_items()
        return self._unsent

    def sent(self) -> None:
        self._unsent = []

    def _next_items(self) -> list[bytes]:
        until = time.monotonic() + _READ_SECONDS
        while not (self._is_over or self._is_full()):
            self._read(until)
            if time.monotonic() > until:
                break
        return self._taken()

    @property
    def is_over(self) -> bool:
        return self._is_over and not (self._pickled or self._unsent)

    def end(self) -> None:
        self._is_over = True
        self._pickled.clear()
        self._unsent = []

    def _is_full(self) -> bool:
        return len(self._pickled) >= ARRAY_ITEMS or self._bytes >= _ARRAY_BYTES

    def _read(self, until: float) -> None:
        read = self._unpickled  # kept in case of Ctrl-C
        clock = time.monotonic
        for item in self._inputs:
            read.append(item)
            if len(read) >= _READ_ITEMS or clock() > until:
                break
        else:
            self._is_over = True
        pickled = pickle_items(read, self._order.modules())
        self._unpickled = []
        self._pickled.extend(pickled)
        self._bytes += sum(map(len, pickled))

    def _fits(self) -> bool:
        """Whether all pickled items fit into one array and inline into its request."""
        count = len(self._pickled)
        size = item_file.index_bytes(count) + self._bytes
        return count <= ARRAY_ITEMS and size <= INLINE_BYTES

    def _taken(self) -> list[bytes]:
        taken: list[bytes] = []
        if self._fits():
            taken.extend(self._pickled)
            self._pickled.clear()
        size = item_file.index_bytes(0)
        while self._pickled and len(taken) < ARRAY_ITEMS:
            size += len(self._pickled[0]) + 8
            most = INLINE_BYTES if len(taken) >= _FEW_ITEMS else _ARRAY_BYTES
            if taken and size > most:
                break
            taken.append(self._pickled.popleft())
        self._bytes -= sum(map(len, taken))
        return taken
