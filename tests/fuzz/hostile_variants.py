"""Requests that somebody with bad intentions writes by hand: each right but for one thing."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

_MARK = "@potluck-hostile@"
# Raw JSON, some of which no writer would write.
VALUES = {
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "too large a float": "1e999",
    "2^70": str(2**70),
    "-2^70": str(-(2**70)),
    "2^63": str(2**63),
    "4000 digits": "9" * 4000,
    "a lone surrogate": '"\\ud800"',
    "a reversed pair": '"\\udc00\\ud800"',
    "NUL": '"\\u0000"',
    "NUL inside": '"a\\u0000b"',
    "control characters": '"\\u001b[31m\\r\\n"',
    "direction marks": '"\\u202e\\u2066"',
    "empty": '""',
    "long": json.dumps("x" * 100_000),
    "null": "null",
    "true": "true",
    "a fraction": "0.5",
    "minus one": "-1",
    "a list": "[]",
    "an object": "{}",
    "deep lists": "[" * 20_000 + "]" * 20_000,
    "deep objects": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "SQL": '"\' OR 1=1; DROP TABLE accounts; --"',
    "a template": '"${jndi:ldap://127.0.0.1/x}{{7*7}}%s%n"',
    "a path": '"../../../../etc/passwd"',
    "not text at all": '"\udcff"',
}
# Raw MessagePack, some of which no writer would write; JSON has no word for most of it.
PACKED_VALUES = {
    "NaN": b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    "-Infinity": b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00",
    "a short NaN": b"\xca\x7f\xc0\x00\x00",
    "2^64-1": b"\xcf" + b"\xff" * 8,
    "-2^63": b"\xd3\x80" + b"\x00" * 7,
    "a lone surrogate": b"\xa3\xed\xa0\x80",
    "no UTF-8": b"\xa2\xc0\xaf",
    "NUL": b"\xa1\x00",
    "bytes": b"\xc4\x03abc",
    "an extension": b"\xd4\x05\x00",
    "a time": b"\xd6\xff\x00\x00\x00\x00",
    "a time beyond all calendars": b"\xc7\x0c\xff\xff\xff\xff\xff" + b"\x7f" + b"\xff" * 7,
    "a map of numbers": b"\x81\x01\x02",
    "a map of maps": b"\x81\x81\x01\x02\x03",
    "nil": b"\xc0",
    "what is never used": b"\xc1",
    "a list of four billion": b"\xdd\xff\xff\xff\xff",
    "a map of four billion": b"\xdf\xff\xff\xff\xff",
    "text of four billion": b"\xdb\xff\xff\xff\xff",
    "deep lists": b"\x91" * 20_000,
    "deep maps": b"\x81\xa1a" * 20_000,
}
PACKED = {"Content-Type": "application/msgpack"}
# In a path or a query.
NAMES = [
    *("%00", "%ff", "%ud800", "..%2f..%2fetc%2fpasswd", "%2e%2e", "x" * 2000, "%27%20OR%201=1--"),
    *("task_01jd0000000000000000000000%00", "%F0%9F%92%A9", "%0d%0aX-Injected:%201", "-1", "1e309"),
    *(str(2**70), "NaN", "null", "%7b%7b7*7%7d%7d", "%25%25", "a%20b", "*", "%C0%AF"),
]
_ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "utf-7", "cp037"]
_KINDS = [
    *("text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data"),
    *("application/msgpack", "application/json; charset=utf-16", "application/json;" * 50, "", "*"),
]


class Hostile(Struct, frozen=True):
    name: str
    body: bytes
    headers: dict[str, str] = {}
    must_fail: bool = False  # what is wrong with it cannot be overlooked
    is_name: bool = False  # wrong in its path: few, and tried in every run


def bodies(right: Any, extra: list[str]) -> Iterator[Hostile]:
    """Each leaf of a right body replaced by each value; then the whole of it in wrong clothes.

    `extra` are names that are no fields of this body.
    """
    for place, marked in _marked(right):
        for name, raw in VALUES.items():
            text = json.dumps(marked).replace(json.dumps(_MARK), raw)
            yield Hostile(f"{place} is {name}", text.encode("utf-8", "surrogateescape"))
    yield from _extra_fields(right, extra)
    yield from _in_wrong_clothes(json.dumps(right))


def packed_bodies(right: Any) -> Iterator[Hostile]:
    """The same in MessagePack."""
    good = msgspec.msgpack.encode(right)
    for place, marked in _marked(right):
        packed = msgspec.msgpack.encode(marked)
        for name, raw in PACKED_VALUES.items():
            body = packed.replace(msgspec.msgpack.encode(_MARK), raw)
            yield Hostile(f"{place} is {name}, packed", body, PACKED)
    yield Hostile("packed, cut short", good[:-1], PACKED, must_fail=len(good) > 1)
    yield Hostile("packed, with a tail", good + b"\xc0", PACKED, must_fail=True)
    yield Hostile("packed, nothing", b"", PACKED, must_fail=True)
    yield Hostile("packed, a list", b"\x91" + good, PACKED, must_fail=True)
    yield Hostile("packed, an unheard-of field", _also(right, "role"), PACKED, must_fail=True)
    yield Hostile("packed, and JSON inside", json.dumps(str(right)).encode(), PACKED)
    for name, raw in PACKED_VALUES.items():
        yield Hostile(f"packed, only {name}", raw, PACKED, must_fail=True)


def _also(right: Any, name: str) -> bytes:
    return msgspec.msgpack.encode({**right, name: "admin"})


def _extra_fields(right: Any, extra: list[str]) -> Iterator[Hostile]:
    """Mass assignment: what the database calls its columns is nobody's to set."""
    for name in extra:
        body = json.dumps({**right, name: "admin"}).encode()
        yield Hostile(f"also {name}", body, must_fail=True)


def _in_wrong_clothes(text: str) -> Iterator[Hostile]:
    good = text.encode()
    yield Hostile("said twice", b"{" + good[1:-1] + b"," + good[1:] if len(good) > 2 else b"{}{}")
    yield Hostile("cut short", good[:-1], must_fail=True)
    yield Hostile("with a tail", good + b"x", must_fail=True)
    yield Hostile("with a NUL", good + b"\x00", must_fail=True)
    yield Hostile("nothing", b"", must_fail=True)
    yield Hostile("with a mark in front", b"\xef\xbb\xbf" + good)
    yield Hostile("in a list", b"[" + good + b"]", must_fail=True)
    for raw in (b"null", b"0", b'""', b"[]", b"\xff\xfe", b"{" * 5000, b"\x80" * 100):
        yield Hostile(f"only {raw[:4]!r}", raw, must_fail=True)
    for encoding in _ENCODINGS:
        yield Hostile(f"in {encoding}", text.encode(encoding))
    for kind in _KINDS:
        yield Hostile(f"said to be {kind[:30]!r}", good, {"Content-Type": kind})
    for encoding in ("gzip", "br", "identity", "x"):
        data = gzip.compress(good) if encoding == "gzip" else good
        yield Hostile(f"packed by {encoding}", data, {"Content-Encoding": encoding})


def _marked(value: Any, place: str = "it") -> Iterator[tuple[str, Any]]:
    """The value with one leaf or branch replaced by the mark, for each of them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for location, marked in _marked(inner, f"{place}.{key}"):
                yield location, {**value, key: marked}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            for location, marked in _marked(inner, f"{place}.{index}"):
                yield location, [*value[:index], marked, *value[index + 1 :]]
    if place != "it":
        yield place, _MARK
