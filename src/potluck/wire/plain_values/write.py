"""Encodes a value."""

import dataclasses
import datetime
import decimal
import enum
import os
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, KeysView, ValuesView
from functools import partial
from typing import Any

from . import arrays, kinds, tables
from .error import PlainError

_FLOAT = struct.Struct(">Bd")
_BYTE, _SHORT, _LONG = (struct.Struct(f">B{kind}") for kind in "BHI")
_SIGNED = struct.Struct(">Bq")
_REST = (
    "Return numbers, text, bytes, lists, tuples, sets, dicts, dates or numpy arrays, "
    "or allow pickled results with allow_pickle=True."
)


class _Out(bytearray):
    """The output so far, and the total number of members of its containers."""

    members = 0


_Writer = Callable[[_Out, Any, int], None]


def encode(value: object) -> bytes:
    """Raises PlainError for types that are not on the list."""
    out = _Out()
    _write(out, value, kinds.MOST_DEPTH)
    return bytes(out)


def _write(out: _Out, value: object, depth: int) -> None:
    writer = _WRITERS.get(type(value)) or _of_library(value)
    if depth == 0:
        raise PlainError("It is nested too deeply, or contains itself.", "Return a flatter value.")
    writer(out, value, depth - 1)


def _none(out: _Out, _: None, __: int) -> None:
    out.append(0xC0)


def _bool(out: _Out, value: bool, _: int) -> None:
    out.append(0xC3 if value else 0xC2)


def _int(out: _Out, value: int, _: int) -> None:
    if -32 <= value < 128:
        out.append(value & 0xFF)
    elif 0 <= value < 2**32:
        out += _LONG.pack(0xCE, value)
    elif -(2**63) <= value < 2**63:
        out += _SIGNED.pack(0xD3, value)
    else:
        length = value.bit_length() // 8 + 1
        if length > kinds.MOST_NUMBER_BYTES:
            raise PlainError("The number has too many digits.", "Return it as text.")
        _ext(out, kinds.BIG_INT, value.to_bytes(length, "big", signed=True))


def _float(out: _Out, value: float, _: int) -> None:
    out += _FLOAT.pack(0xCB, value)


def _str(out: _Out, value: str, _: int) -> None:
    data = value.encode("utf-8", "surrogatepass")
    if len(data) < 32:
        out.append(0xA0 | len(data))
    else:
        _length(out, len(data), 0xD9)
    out += data


def _bytes(out: _Out, value: bytes | bytearray, _: int) -> None:
    _length(out, len(value), 0xC4)
    out += value


def _list(out: _Out, value: list[object], depth: int) -> None:
    _sequence(out, value, len(value), depth)


def _dict(out: _Out, value: dict[object, object], depth: int) -> None:
    _count(out, len(value), 0x80, 0xDE)
    for key, member in value.items():
        try:
            _write(out, key, depth)
            _write(out, member, depth)
        except PlainError as error:
            error.below(f"[{_short(key)}]")
            raise


def _within(kind: int) -> _Writer:
    """An extension around the members, which are encoded as a list."""

    def write(out: _Out, value: Any, depth: int) -> None:
        inner = _Out()
        _sequence(inner, value, len(value), depth)
        _ext(out, kind, inner)
        out.members += inner.members

    return write


def _as_text(kind: int, text: Callable[[Any], str]) -> _Writer:
    def write(out: _Out, value: Any, _: int) -> None:
        data = text(value).encode()
        if len(data) > kinds.MOST_NUMBER_BYTES:
            raise PlainError("The number has too many digits.", "Return it as text.")
        _ext(out, kind, data)

    return write


def _moment(value: datetime.datetime | datetime.time) -> str:
    return f"{value.fold}{value.isoformat()}"


def _timedelta(out: _Out, value: datetime.timedelta, _: int) -> None:
    parts = (value.days, value.seconds, value.microseconds)
    _ext(out, kinds.TIMEDELTA, struct.pack(">qII", *parts))


def _uuid(out: _Out, value: uuid.UUID, _: int) -> None:
    _ext(out, kinds.UUID, value.bytes)


def _complex(out: _Out, value: complex, _: int) -> None:
    _ext(out, kinds.COMPLEX, struct.pack(">dd", value.real, value.imag))


def _of_library(value: object) -> _Writer:
    """For arrays and tables, detected by name: their libraries may not be installed."""
    for kind, parts_of in _LIBRARIES.items():
        parts = parts_of(value)
        if parts is not None:
            return partial(_of_parts, kind, parts)
    raise PlainError(f"A value of type {_type_name(value)} is not plain data.", _instead(value))


def _of_parts(kind: int, parts: tuple[object, ...], out: _Out, _: object, __: int) -> None:
    _within(kind)(out, parts, kinds.MOST_DEPTH)


def _instead(value: object) -> str:
    """A suggestion for what to return instead."""
    name = _type_name(value)
    if conversion := _KNOWN.get(name):
        return f"Return {conversion}."
    match value:
        case enum.Enum():
            return "Return its .value."
        case os.PathLike():
            return "Return str(path)."
        case tuple() if hasattr(value, "_asdict"):
            return "Return tuple(value) or value._asdict()."
        case Iterator() | KeysView() | ValuesView() | range():
            return "Return list(value)."
    if dataclasses.is_dataclass(value):
        return "Return dataclasses.asdict(value)."
    plain = next((base for base in _WRITERS if isinstance(value, base)), None)
    return f"Return {plain.__name__}(value)." if plain else _REST


_KNOWN = {
    "torch.Tensor": "tensor.detach().cpu().numpy()",
    "pandas.DataFrame": "pyarrow.Table.from_pandas(frame), or frame.to_dict('list')",
    "pandas.core.frame.DataFrame": "pyarrow.Table.from_pandas(frame), or frame.to_dict('list')",
    "pandas.core.series.Series": "series.to_numpy()",
    "PIL.Image.Image": "numpy.asarray(image)",
    "numpy.matrix": "numpy.asarray(matrix)",
    "numpy.rec.recarray": "numpy.asarray(array)",
    "numpy.recarray": "numpy.asarray(array)",
    "numpy.ma.MaskedArray": "array.data and array.mask",
    "numpy.ma.core.MaskedArray": "array.data and array.mask",
}


def _type_name(value: object) -> str:
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _sequence(out: _Out, members: Iterable[object], count: int, depth: int) -> None:
    _count(out, count, 0x90, 0xDC)
    for index, member in enumerate(members):
        try:
            _write(out, member, depth)
        except PlainError as error:
            error.below(f"[{index}]")
            raise


def _count(out: _Out, count: int, short: int, long: int) -> None:
    out.members += count if short == 0x90 else 2 * count
    if out.members > kinds.MOST_MEMBERS:
        raise PlainError(
            f"It has more than {kinds.MOST_MEMBERS:,} members.",
            "Return a numpy array, or write a file to $POTLUCK_OUTPUT.",
        )
    if count < 16:
        out.append(short | count)
    elif count < 2**16:
        out += _SHORT.pack(long, count)
    else:
        out += _LONG.pack(long + 1, count)


def _ext(out: _Out, kind: int, data: bytes | bytearray) -> None:
    _length(out, len(data), 0xC7)
    out.append(kind)
    out += data


def _length(out: _Out, length: int, code: int) -> None:
    """The codes for two and for four bytes of length follow `code`."""
    if length < 2**8:
        out += _BYTE.pack(code, length)
    elif length < 2**16:
        out += _SHORT.pack(code + 1, length)
    elif length < 2**32:
        out += _LONG.pack(code + 2, length)
    else:
        raise PlainError("It is larger than 4 GiB.", "Write it to a file in $POTLUCK_OUTPUT.")


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 60 else f"{text[:57]}..."


_WRITERS: dict[type, _Writer] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    bytearray: _bytes,
    list: _list,
    dict: _dict,
    tuple: _within(kinds.TUPLE),
    set: _within(kinds.SET),
    frozenset: _within(kinds.FROZENSET),
    datetime.datetime: _as_text(kinds.DATETIME, _moment),
    datetime.date: _as_text(kinds.DATE, datetime.date.isoformat),
    datetime.time: _as_text(kinds.TIME, _moment),
    datetime.timedelta: _timedelta,
    decimal.Decimal: _as_text(kinds.DECIMAL, str),
    uuid.UUID: _uuid,
    complex: _complex,
}
_LIBRARIES: dict[int, Callable[[object], tuple[object, ...] | None]] = {
    kinds.ARRAY: arrays.array_parts,
    kinds.SCALAR: arrays.scalar_parts,
    kinds.ARROW: tables.parts,
}
