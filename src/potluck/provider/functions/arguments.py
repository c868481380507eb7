"""Reads functions and arguments in pieces, since they may be larger than our memory.

The bytes are the consumer's pickles; the provider passes them on and never loads them.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from potluck.model.blob import Value
from potluck.model.task import ItemRange
from potluck.provider.files.work_directory import InputFiles
from potluck.provider.functions.interpreter_main import ITEMS
from potluck.provider.sandbox.driver import InputFailed
from potluck.wire.item_file import index_bytes

_NUMBER_BYTES = 8
_CHUNK_BYTES = 2**18
# In one frame: many enough to make its overhead negligible, small enough for one write.
MOST_ITEMS, MOST_FRAME_BYTES = 16_384, 2**20
_INCONSISTENT = "the arguments of the items are inconsistent"


class ItemBatch(Struct, frozen=True):
    """Consecutive items, and the positions of their arguments."""

    start: int
    offsets: tuple[int, ...]  # one more than items; relative to the first argument

    @property
    def end(self) -> int:
        return self.start + len(self.offsets) - 1

    @property
    def head(self) -> bytes:
        count = len(self.offsets)
        return ITEMS.pack(self.start, count - 1) + struct.pack(f"<{count}Q", *self.offsets)


class ItemArguments(Protocol):
    """Where the arguments of items come from."""

    def batches(self, items: ItemRange, most_items: int) -> Iterator[ItemBatch]:
        """Splits items into batches of bounded size; a single item may be larger."""
        ...

    def parts(self, batch: ItemBatch) -> Iterator[bytes]: ...

    def size(self, batch: ItemBatch) -> int: ...


class Arguments:
    """The arguments of one call, or of all items of an array; a context manager."""

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
        """The arguments of one item; raises InputFailed if they are larger than `most_bytes`."""
        start, end = self._offsets(item, item + 1)
        data = self._source.read(self._base + start, end - start)
        if end - start > most_bytes or len(data) != end - start:
            raise InputFailed(_INCONSISTENT)
        return data

    def batches(self, items: ItemRange, most_items: int = MOST_ITEMS) -> Iterator[ItemBatch]:
        """Splits items into batches of bounded size; a single item may be larger."""
        start = items.start
        while start < items.end:
            offsets = self._offsets(start, min(items.end, start + most_items))
            fits = [offset for offset in offsets[2:] if offset - offsets[0] <= MOST_FRAME_BYTES]
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
        count = int.from_bytes(self._source.read(0, _NUMBER_BYTES), "little")
        if count != self._count or self._size < self._base:
            raise InputFailed(_INCONSISTENT)

    def _offsets(self, start: int, end: int) -> tuple[int, ...]:
        if not self._base:
            return (0, self._size)
        count = end - start + 1
        data = self._source.read(_NUMBER_BYTES * (start + 1), _NUMBER_BYTES * count)
        if end > self._count or len(data) != _NUMBER_BYTES * count:
            raise InputFailed(_INCONSISTENT)
        offsets = struct.unpack(f"<{count}Q", data)
        if list(offsets) != sorted(offsets) or offsets[-1] > self._size - self._base:
            raise InputFailed(_INCONSISTENT)
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
    """The caller closes it."""
    return (
        _ArgumentBuffer(value.data)
        if value.blob is None
        else _ArgumentFile(inputs.path_of(value.blob))
    )


def read_pieces(source: _ArgumentBuffer | _ArgumentFile, start: int, end: int) -> Iterator[bytes]:
    while start < end:
        data = source.read(start, min(_CHUNK_BYTES, end - start))
        if not data:
            raise InputFailed(_INCONSISTENT)
        yield data
        start += len(data)
