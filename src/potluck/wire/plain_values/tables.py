"""Arrow tables, record batches and arrays, as [kind, IPC stream].

The stream is read without copies and fully validated. Streams that would expand are refused:
compressed bodies, and repeated references to the same part. Arrow before 15 unpickles objects in
streams, so those versions are refused.
"""

import struct
import sys
from collections.abc import Sequence
from typing import Any

from .error import PlainError

_OLDEST = 15
# Positions of the fields in the messages (flatbuffers) that lead to a body's compression.
_HEADER_TYPE, _HEADER, _DICTIONARY_DATA, _COMPRESSION = 1, 2, 1, 3
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
_MOST_GROWTH, _SPARE_BYTES = 4, 65_536


def parts(value: object) -> tuple[object, ...] | None:
    """None if the value is not from Arrow."""
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is None:
        return None
    if type(value) is arrow.Table:
        return "table", _stream(arrow, value)
    if type(value) is arrow.RecordBatch:
        return "batch", _stream(arrow, arrow.Table.from_batches([value]))
    if isinstance(value, arrow.Array | arrow.ChunkedArray):
        what = "array" if isinstance(value, arrow.Array) else "chunks"
        return what, _stream(arrow, arrow.table({"": value}))
    return None


def _stream(arrow: Any, table: Any) -> bytes:
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def value_of(parts: Sequence[Any]) -> Any:
    what, data = parts
    if type(what) is not str or type(data) is not bytes:
        raise _damaged()
    arrow = _arrow()
    try:
        table = _table(arrow, data)
        return _unwrapped(arrow, what, table)
    except (arrow.ArrowException, struct.error, OSError, NotImplementedError) as error:
        raise _damaged() from error


def _table(arrow: Any, data: bytes) -> Any:
    for message in arrow.ipc.MessageReader.open_stream(data):
        if _is_compressed(bytes(message.metadata)):
            raise _damaged()
    with arrow.ipc.open_stream(data) as reader:
        table = reader.read_all()
    table.validate()
    if table.nbytes > _MOST_GROWTH * len(data) + _SPARE_BYTES:
        raise _damaged()
    table.validate(full=True)
    return table


def _unwrapped(arrow: Any, what: str, table: Any) -> Any:
    if what == "table":
        return table
    if what == "batch":
        batches = table.to_batches() or [arrow.RecordBatch.from_pylist([], schema=table.schema)]
        return batches[0] if len(batches) == 1 else table.combine_chunks().to_batches()[0]
    column = table.column(0)
    if what == "chunks":
        return column
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, arrow.ChunkedArray) else whole


def _is_compressed(metadata: bytes) -> bool:
    (root,) = struct.unpack_from("<I", metadata)
    kind_at, header_at = _field(metadata, root, _HEADER_TYPE), _field(metadata, root, _HEADER)
    if not kind_at or not header_at or metadata[kind_at] not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return False
    batch = _follow(metadata, header_at)
    if metadata[kind_at] == _DICTIONARY_BATCH:
        data_at = _field(metadata, batch, _DICTIONARY_DATA)
        if not data_at:
            return False
        batch = _follow(metadata, data_at)
    return bool(_field(metadata, batch, _COMPRESSION))


def _field(metadata: bytes, table: int, number: int) -> int:
    """The position of a field of a table; 0 if it is absent."""
    (back,) = struct.unpack_from("<i", metadata, table)
    index = table - back
    (size,) = struct.unpack_from("<H", metadata, index)
    place = 4 + 2 * number
    if place + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, index + place)
    return table + offset if offset else 0


def _follow(metadata: bytes, at: int) -> int:
    (offset,) = struct.unpack_from("<I", metadata, at)
    return at + int(offset)


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise PlainError(
            "It contains Arrow data, but pyarrow is not installed.", "pip install pyarrow"
        ) from None
    if int(pyarrow.__version__.partition(".")[0]) < _OLDEST:
        raise PlainError(
            f"pyarrow {pyarrow.__version__} is not safe for untrusted data.",
            "pip install --upgrade pyarrow",
        )
    return pyarrow


def _damaged() -> PlainError:
    return PlainError("The bytes are not Arrow data.", "The node sent an invalid result.")
