"""Decodes a value from bytes that may be malicious."""

import datetime
import decimal
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import arrays, kinds, tables
from .error import PlainError

# Fewer keys are always cheap; this many equal hashes among more are no accident.
_FEW_KEYS, _MOST_ALIKE = 1_000, 200
_NUMBERS = {
    code: struct.Struct(f">{kind}")
    for code, kind in zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True)
}
_LENGTHS = tuple(struct.Struct(f">{kind}") for kind in "BHI")
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def decode(data: bytes) -> Any:
    """Raises PlainError for anything that `encode` would not have written."""
    if not data:
        _refuse()
    reader = _ValueReader(data)
    try:
        value = reader.value(kinds.MOST_DEPTH + kinds.SPARE_DEPTH)
    except PlainError:
        raise
    except (struct.error, IndexError, ValueError, TypeError, ArithmeticError, RecursionError):
        # Raised by the standard library for invalid input.
        _refuse()
    if reader.position != len(data):
        _refuse()
    return value


class _ValueReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = kinds.MOST_MEMBERS
        self.position = 0

    def value(self, depth: int) -> Any:
        code = self._data[self.position]
        self.position += 1
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code >= 0xCA and code < 0xD4:
            return self._number(_NUMBERS[code])
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if 0xA0 <= code < 0xC0:
            return self._text(code & 0x1F)
        if depth == 0:
            _refuse()
        return self._compound(code, depth - 1)

    def _compound(self, code: int, depth: int) -> Any:
        if code < 0x90:
            return self._dict(code & 0x0F, depth)
        if code < 0xA0:
            return self._list(code & 0x0F, depth)
        if 0xC4 <= code <= 0xC6:
            return self._bytes(self._number(_LENGTHS[code - 0xC4]))
        if 0xC7 <= code <= 0xC9:
            return self._ext(self._number(_LENGTHS[code - 0xC7]), depth)
        if 0xD9 <= code <= 0xDB:
            return self._text(self._number(_LENGTHS[code - 0xD9]))
        if 0xDC <= code <= 0xDD:
            return self._list(self._number(_LENGTHS[code - 0xDB]), depth)
        if 0xDE <= code <= 0xDF:
            return self._dict(self._number(_LENGTHS[code - 0xDD]), depth)
        return _refuse()

    def _number(self, shape: struct.Struct) -> Any:
        (number,) = shape.unpack_from(self._data, self.position)
        self.position += shape.size
        return number

    def _text(self, length: int) -> str:
        return self._bytes(length).decode("utf-8", "surrogatepass")

    def _bytes(self, length: int) -> bytes:
        end = self.position + length
        if end > len(self._data):
            _refuse()
        data = self._data[self.position : end]
        self.position = end
        return data

    def _list(self, count: int, depth: int) -> list[Any]:
        self._expect(count)
        value = self.value
        return [value(depth) for _ in range(count)]

    def _dict(self, count: int, depth: int) -> dict[Any, Any]:
        self._expect(2 * count)
        keys, values = [], []
        for _ in range(count):
            keys.append(self.value(depth))
            values.append(self.value(depth))
        _check_keys(keys)
        return dict(zip(keys, values, strict=True))

    def _expect(self, count: int) -> None:
        """Every value has at least one byte, and their total number is limited."""
        self._left -= count
        if count > len(self._data) - self.position or self._left < 0:
            _refuse()

    def _ext(self, length: int, depth: int) -> Any:
        kind = self._data[self.position]
        self.position += 1
        end = self.position + length
        if end > len(self._data):
            _refuse()
        value = self._marked(kind, end, depth)
        if self.position != end:
            _refuse()
        return value

    def _marked(self, kind: int, end: int, depth: int) -> Any:
        if build := _OF_PARTS.get(kind):
            parts = self.value(depth + 1)
            if type(parts) is not list:
                _refuse()
            return build(parts)
        if read := _OF_BYTES.get(kind):
            return read(self._bytes(end - self.position))
        return _refuse()


def _check_keys(keys: Sequence[Any]) -> None:
    """Keys that all have the same hash would take quadratic time."""
    if len(keys) > _FEW_KEYS and max(Counter(map(hash, keys)).values()) > _MOST_ALIKE:
        _refuse()


def _members(build: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def read(parts: list[Any]) -> Any:
        _check_keys(parts)
        return build(parts)

    return read


def _number_text(data: bytes) -> str:
    if len(data) > kinds.MOST_NUMBER_BYTES:
        _refuse()
    return data.decode("ascii")


def _big_int(data: bytes) -> int:
    if len(data) > kinds.MOST_NUMBER_BYTES:
        _refuse()
    return int.from_bytes(data, "big", signed=True)


def _datetime(data: bytes) -> datetime.datetime:
    text = data.decode("ascii")
    return datetime.datetime.fromisoformat(text[1:]).replace(fold=int(text[0]))


def _time(data: bytes) -> datetime.time:
    text = data.decode("ascii")
    return datetime.time.fromisoformat(text[1:]).replace(fold=int(text[0]))


def _timedelta(data: bytes) -> datetime.timedelta:
    days, seconds, microseconds = struct.unpack(">qII", data)
    return datetime.timedelta(days, seconds, microseconds)


def _refuse() -> NoReturn:
    raise PlainError("The bytes are not a plain value.", "The node sent an invalid result.")


_OF_PARTS: dict[int, Callable[[list[Any]], Any]] = {
    kinds.TUPLE: tuple,
    kinds.SET: _members(set),
    kinds.FROZENSET: _members(frozenset),
    kinds.ARRAY: arrays.array_of,
    kinds.SCALAR: arrays.scalar_of,
    kinds.ARROW: tables.value_of,
}
_OF_BYTES: dict[int, Callable[[bytes], Any]] = {
    kinds.BIG_INT: _big_int,
    kinds.DATETIME: _datetime,
    kinds.DATE: lambda data: datetime.date.fromisoformat(data.decode("ascii")),
    kinds.TIME: _time,
    kinds.TIMEDELTA: _timedelta,
    kinds.DECIMAL: lambda data: decimal.Decimal(_number_text(data)),
    kinds.UUID: lambda data: uuid.UUID(bytes=data),
    kinds.COMPLEX: lambda data: complex(*struct.unpack(">dd", data)),
}
