"""What a function may return, and what a stranger may send in its place."""

import datetime
import decimal
import enum
import os
import pathlib
import pickle
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.wire import plain_values
from potluck.wire.plain_values import PlainError, decode, encode

_zones = st.one_of(
    st.none(),
    st.integers(-1439, 1439).map(lambda m: datetime.timezone(datetime.timedelta(minutes=m))),
)
_hashable = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.uuids(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
)
_leaves = st.one_of(
    _hashable,
    st.complex_numbers(allow_nan=False),
    st.datetimes(timezones=_zones),
    st.times(),
    st.sets(_hashable),
    st.frozensets(_hashable),
)
_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.one_of(_hashable, st.tuples(_hashable, _hashable)), inner),
    ),
    max_leaves=30,
)


@given(_values)
def test_every_value_survives_a_round_trip(value: object) -> None:
    decoded = decode(encode(value))

    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        2**63 - 1,
        -(2**63),
        2**64,
        -(2**64),
        10**5_000,
        float("inf"),
        "\ud800 alone",
        decimal.Decimal("Infinity"),
        datetime.datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
        datetime.timedelta.max,
        b"x" * 70_000,
        "y" * 70_000,
        list(range(70_000)),
        {number: str(number) for number in range(70_000)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_edges_of_the_plain_types(value: object) -> None:
    assert decode(encode(value)) == value


_ARRAYS = [
    numpy.arange(12, dtype=">i4").reshape(3, 4),
    numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
    numpy.zeros((0, 3), "f4"),
    numpy.array(3.5),
    numpy.array(["a", "", "ßß"]),
    numpy.array([b"a", b"bc"]),
    numpy.array(["2026-01-01", "NaT"], "M8[ns]"),
    numpy.array([1 + 2j], "c8"),
    numpy.array([True, False]),
    numpy.arange(10)[::3],
    numpy.zeros(2, [("a", "<i4"), ("b", "<f8", (2,)), ("c", [("d", "u1")])]),
    numpy.zeros(2, numpy.dtype([("a", "u1"), ("b", "f8")], align=True)),
]


@pytest.mark.parametrize("array", _ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_come_back_equal_and_may_be_written_to(array: Any) -> None:
    decoded = decode(encode({"it": [array]}))["it"][0]

    numpy.testing.assert_array_equal(decoded, array)
    assert decoded.shape == array.shape
    assert decoded.dtype.isbuiltin or decoded.dtype == array.dtype or decoded.dtype.names
    assert decoded.flags.writeable


@pytest.mark.parametrize(
    "scalar", [numpy.float32(1.5), numpy.int8(-3), numpy.str_(""), numpy.bool_(True)]
)
def test_scalars_of_numpy_keep_their_type(scalar: Any) -> None:
    decoded = decode(encode(scalar))

    assert decoded == scalar
    assert type(decoded) is type(scalar)


def test_tables_and_arrays_of_arrow() -> None:
    table = pyarrow.table({"a": [1, 2], "b": ["x", None], "c": [[1.5], []]})
    words = pyarrow.array(["a", "b", "a"]).dictionary_encode()

    assert decode(encode(table)).equals(table)
    assert decode(encode(table.to_batches()[0])).equals(table.to_batches()[0])
    assert decode(encode(words)).equals(words)
    assert decode(encode(pyarrow.chunked_array([[1], [2]]))).num_chunks == 2
    assert decode(encode(pyarrow.array([], pyarrow.int32()))).type == pyarrow.int32()


class _Colour(enum.IntEnum):
    RED = 1


class _Point(NamedTuple):
    x: int


class _Own:
    pass


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (_Own(), "_Own is not plain data"),
        (object(), "A value of type object is not plain data"),
        (_Colour.RED, "its .value"),
        (_Point(1), "tuple(value)"),
        (pathlib.PurePosixPath("/x"), "str(path)"),
        (range(3), "list(value)"),
        (iter([1]), "list(value)"),
        ({}.keys(), "list(value)"),
        (numpy.array([None]), "array of Python objects"),
        (numpy.ma.array([1], mask=[True]), "array.mask"),
        (numpy.zeros(1, [("a", object)]), "array of Python objects"),
        (1 << 600_000, "too many digits"),
        (print, "not plain data"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_values_that_are_not_plain_are_reported_with_their_place(
    value: object, sentence: str
) -> None:
    with pytest.raises(PlainError) as error_info:
        encode({"all": [0, value]})

    assert sentence in str(error_info.value)
    assert "at value['all'][1]" in str(error_info.value)


def test_recursive_values_are_refused() -> None:
    ring: list[object] = []
    ring.append(ring)

    with pytest.raises(PlainError, match="contains itself"):
        encode(ring)


def test_values_of_the_greatest_depth_can_be_read() -> None:
    deep: object = numpy.zeros(1, [("a", [("b", "<f8", (2,))])])
    for turn in range(63):
        deep = (deep,) if turn % 2 else [deep]

    assert decode(encode(deep)) is not None
    with pytest.raises(PlainError):
        encode([deep])


def _bomb(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


def _ext(kind: int, data: bytes) -> bytes:
    return b"\xc9" + len(data).to_bytes(4, "big") + bytes([kind]) + data


def _hashed_alike(count: int) -> Iterator[int]:
    return (1 + turn * (2**61 - 1) for turn in range(1, count + 1))


class _Canary:
    """Pickled, it makes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


_HOSTILE = {
    "nothing": b"",
    "a value too many": b"\xc0\xc0",
    "deep lists": _bomb(100_000),
    "lists a little too deep": _bomb(100),
    "deep tuples": b"".join(b"\xc9\x00\x00\xff\xff\x02\x91" for _ in range(10_000)),
    "a list of four billion": b"\xdd\xff\xff\xff\xff",
    "a dict of four billion": b"\xdf\xff\xff\xff\xff\xc0\xc0",
    "bytes that are not there": b"\xc6\xff\xff\xff\xff",
    "text that is not there": b"\xdb\xff\xff\xff\xff",
    "text that is none": b"\xa2\xff\xfe",
    "an unknown mark": _ext(99, b"\xc0"),
    "the mark of timestamps": b"\xd6\xff\x00\x00\x00\x00",
    "a reserved code": b"\xc1",
    "a list as a key": b"\x81\x90\xc0",
    "a number without end": _ext(1, b"\x7f" * 100_000),
    "a decimal that is none": _ext(9, b"nonsense"),
    "a date that is none": _ext(6, b"2026-02-31"),
    "an array of objects": _ext(12, encode(["|O8", [1], b"\x00" * 8])),
    "an array larger than its bytes": _ext(12, encode(["<f8", [2**40], b"\x00" * 8])),
    "an array of nothing, many times": _ext(12, encode(["|S0", [2**40], b""])),
    "an empty array of absurd shape": _ext(12, encode(["<f8", [0, 2**47, 2**47], b""])),
    "records of objects": _ext(12, encode([[["a", "|O8", []]], [1], b"\x00" * 8])),
    "records of nothing": _ext(12, encode([[["a", "<f8", [0]]], [2**40], b""])),
    "records of absurd size": _ext(12, encode([[["a", "<f8", [2**47]]], [0], b""])),
    "a type that is code": _ext(12, encode(["f8;import os", [1], b"\x00" * 8])),
    "a stream that is none": _ext(14, encode(["table", b"nonsense"])),
    "a stream of nothing": _ext(14, encode(["table", b""])),
    "many keys of one hash": b"\xdf"
    + (30_000).to_bytes(4, "big")
    + b"".join(encode(key) + b"\xc0" for key in _hashed_alike(30_000)),
}


@pytest.mark.parametrize("data", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_bytes_are_refused_at_once(data: bytes) -> None:
    started, memory_before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(PlainError):
        decode(data)

    assert time.process_time() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_before < 64_000  # KiB


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_never_opened(tmp_path: Path, protocol: int) -> None:
    canary = tmp_path / "ran"
    hostile = pickle.dumps(_Canary(canary), protocol)
    array = numpy.array([_Canary(canary)], dtype=object)
    arrays = pickle.dumps(array, protocol)

    for data in (
        hostile,
        _ext(12, hostile),
        _ext(14, hostile),
        _ext(14, encode(["table", hostile])),
    ):
        with pytest.raises(PlainError):
            decode(data)
    assert decode(encode(arrays)) == arrays, "bytes stay bytes"
    assert not canary.exists()


def test_a_compressed_table_is_no_bomb() -> None:
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({"a": numpy.zeros(10_000_000)})
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    bomb = bytes(sink.getvalue())

    assert len(bomb) < 100_000
    usual = pyarrow.default_memory_pool()
    watched = pyarrow.proxy_memory_pool(pyarrow.system_memory_pool())
    pyarrow.set_memory_pool(watched)
    try:
        with pytest.raises(PlainError):
            decode(_ext(14, encode(["table", bomb])))
    finally:
        pyarrow.set_memory_pool(usual)
    assert watched.max_memory() < 10_000_000, "it was unpacked"


@settings(max_examples=400)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    try:
        decode(data)
    except PlainError:
        return


def test_damaged_values_are_a_value_or_refused() -> None:
    encoded = encode([_ARRAYS[0], pyarrow.table({"a": [1, 2], "b": ["x", None]}), {1: (2, {3})}])
    dice = random.Random(7)
    for _ in range(3_000):
        data = bytearray(encoded)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        try:
            decode(bytes(data))
        except PlainError:
            continue


def test_plain_values_need_only_the_standard_library() -> None:
    """It is shown to functions in a sandbox, where nothing of ours is installed."""
    folder = Path(plain_values.__file__).parent
    process = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ALONE, str(folder.parent)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert process.stdout.split() == ["[1,", "'a']", "False", "numpy"]


_ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import plain_values
print(plain_values.decode(plain_values.encode([1, "a"])), "numpy" in sys.modules, end=" ")
try:
    plain_values.decode(bytes.fromhex("c70e0c93a33c663891") + b"\\x01\\xc4\\x08" + bytes(8))
except plain_values.PlainError as error:
    print(error.hint.rpartition(" ")[2])
"""
