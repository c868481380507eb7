"""Numpy arrays and scalars, as [type, shape, bytes] and [type, bytes].

A type is text such as "<f8", or for records a list of [name, type, shape]. It is checked letter by
letter before numpy sees it, and never contains objects: those would be pickles.
"""

import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from .error import PlainError

_TYPE = re.compile(
    r"[<>|](?:b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[SUV][1-9][0-9]{0,8}|[mM]8(?:\[[0-9]{0,9}[a-zA-Z]{1,7}\])?)"
)
_MOST_DIMENSIONS = 32
_MOST_FIELDS = 1_000


def array_parts(value: object) -> tuple[object, ...] | None:
    """None if the value is not an array."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) not in (numpy.ndarray, numpy.memmap):
        return None
    return _parts(value)


def scalar_parts(value: object) -> tuple[object, ...] | None:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic):
        return None
    description, _, data = _parts(numpy.asarray(value))
    return description, data


def _parts(array: Any) -> tuple[object, ...]:
    packed = array.astype(_packed(array.dtype), copy=False)
    return _description(packed.dtype), list(packed.shape), packed.tobytes()


def array_of(parts: Sequence[Any]) -> Any:
    description, shape, data = parts
    numpy, kind = _numpy(), _dtype(description)
    if not _is_shape(shape) or math.prod(shape) * kind.itemsize != len(_bytes(data)):
        raise _damaged()
    # Through a bytearray, so that the array is writable.
    return (
        numpy.frombuffer(bytearray(data), kind).reshape(shape) if data else numpy.empty(shape, kind)
    )


def scalar_of(parts: Sequence[Any]) -> Any:
    description, data = parts
    kind = _dtype(description)
    if kind.itemsize != len(_bytes(data)):
        raise _damaged()
    return _numpy().frombuffer(data, kind)[0]


def _packed(kind: Any) -> Any:
    """Without the gaps between fields, whose bytes may hold other data."""
    if kind.names is None:
        return kind
    fields = [(name, kind.fields[name][0]) for name in kind.names]
    return _numpy().dtype([(name, _packed(of.base), of.shape) for name, of in fields])


def _description(kind: Any) -> str | list[Any]:
    if kind.hasobject:
        raise PlainError(
            "It is a numpy array of Python objects.", "Return array.tolist(), or another dtype."
        )
    if kind.names is not None:
        fields = [(name, kind.fields[name][0]) for name in kind.names]
        return [[name, _description(of.base), list(of.shape)] for name, of in fields]
    if not _TYPE.fullmatch(kind.str):
        raise PlainError(f"The numpy type {kind} is not plain data.", "Return array.tolist().")
    return str(kind.str)


def _dtype(description: object, depth: int = 8) -> Any:
    if type(description) is str and _TYPE.fullmatch(description):
        return _numpy().dtype(description)
    if type(description) is not list or not 0 < len(description) <= _MOST_FIELDS or depth == 0:
        raise _damaged()
    kind = _numpy().dtype([_field(field, depth - 1) for field in description])
    if kind.itemsize == 0:
        raise _damaged()
    return kind


def _field(field: Sequence[Any], depth: int) -> tuple[Any, ...]:
    name, description, shape = field
    if type(name) is not str or not name or not _is_shape(shape):
        raise _damaged()
    return name, _dtype(description, depth), tuple(shape)


def _is_shape(shape: object) -> bool:
    return (
        type(shape) is list
        and len(shape) <= _MOST_DIMENSIONS
        and all(type(size) is int and 0 <= size < 2**48 for size in shape)
    )


def _bytes(data: object) -> bytes:
    if type(data) is not bytes:
        raise _damaged()
    return data


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise PlainError(
            "It contains numpy arrays, but numpy is not installed.", "pip install numpy"
        ) from None
    return numpy


def _damaged() -> PlainError:
    return PlainError("The bytes are not an array.", "The node sent an invalid result.")
