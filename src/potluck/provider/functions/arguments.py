"""A function and what it is called with, piece by piece: they may be larger than our memory.

The bytes are pickles of the consumer's. Here they are passed on and never opened.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from potluck.model.blob import Value
from potluck.model.task import ItemRange
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.functions.interpreter_main import ITEMS
from potluck.provider.sandbox.driver import InputFailed
from potluck.wire.item_file import index_bytes

_NUMBER_BYTES = 8
_CHUNK_BYTES = 2**18
# In one frame: so many that their number costs nothing, and little enough to be sent in one go.
MOST_ITEMS, _MOST_BYTES = 16_384, 2**20
_DO_NOT_FIT = "the arguments of the items do not fit together"


class ItemBatch(Struct, frozen=True):
    """Some items in a row, and where their arguments stand."""

    start: int
    offsets: tuple[int, ...]  # one more than there are items; from the beginning of the arguments

    @property
    def end(self) -> int:
        return self.start + len(self.offsets) - 1

    @property
    def head(self) -> bytes:
        count = len(self.offsets)
        return ITEMS.pack(self.start, count - 1) + struct.pack(f"<{count}Q", *self.offsets)


class Arguments:
    """Those of one call, or of all items of an array. `close` when done."""

    def __init__(self, value: Value, inputs: InputFiles, items_total: int | None) -> None:
        self._source = open_value(value, inputs)
        self._size = self._source.size
        self._base = 0
        self._count = 1
        if items_total is not None:
            self._count = items_total
            self._base = index_bytes(items_total)
            self._check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._source.close()

    def of(self, item: int, most_bytes: int) -> bytes:
        """Those of one item, which may have so many."""
        start, end = self._offsets(item, item + 1)
        data = self._source.read(self._base + start, end - start)
        if end - start > most_bytes or len(data) != end - start:
            raise InputFailed(_DO_NOT_FIT)
        return data

    def batches(self, items: ItemRange, most_items: int = MOST_ITEMS) -> Iterator[ItemBatch]:
        """In order, none of them large, unless an item alone is."""
        start = items.start
        while start < items.end:
            offsets = self._offsets(start, min(items.end, start + most_items))
            fits = [each for each in offsets[2:] if each - offsets[0] <= _MOST_BYTES]
            batch = ItemBatch(start, offsets[: 2 + len(fits)])
            yield batch
            start = batch.end

    def parts(self, batch: ItemBatch) -> Iterator[bytes]:
        yield batch.head
        start, end = batch.offsets[0], batch.offsets[-1]
        yield from read_pieces(self._source, self._base + start, self._base + end)

    def size(self, batch: ItemBatch) -> int:
        return len(batch.head) + batch.offsets[-1] - batch.offsets[0]

    def _check(self) -> None:
        told = self._source.read(0, _NUMBER_BYTES)
        if int.from_bytes(told, "little") != self._count or self._size < self._base:
            raise InputFailed(_DO_NOT_FIT)

    def _offsets(self, start: int, end: int) -> tuple[int, ...]:
        if not self._base:
            return (0, self._size)
        count = end - start + 1
        data = self._source.read(_NUMBER_BYTES * (start + 1), _NUMBER_BYTES * count)
        if end > self._count or len(data) != _NUMBER_BYTES * count:
            raise InputFailed(_DO_NOT_FIT)
        offsets = struct.unpack(f"<{count}Q", data)
        if list(offsets) != sorted(offsets) or offsets[-1] > self._size - self._base:
            raise InputFailed(_DO_NOT_FIT)
        return offsets


class _ArgumentBuffer:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, start: int, size: int) -> bytes:
        return self._data[start : start + size]

    def close(self) -> None:
        pass


class _ArgumentFile:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, start: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, start)

    def close(self) -> None:
        os.close(self._descriptor)


def open_value(value: Value, inputs: InputFiles) -> _ArgumentBuffer | _ArgumentFile:
    """To be closed."""
    return (
        _ArgumentBuffer(value.data)
        if value.blob is None
        else _ArgumentFile(inputs.path_of(value.blob))
    )


def read_pieces(source: _ArgumentBuffer | _ArgumentFile, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        data = source.read(start, min(_CHUNK_BYTES, end - start))
        if not data:
            raise InputFailed(_DO_NOT_FIT)
        yield data
        start += len(data)
