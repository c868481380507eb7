"""Bodies made to be expensive: from the server's document, and larger and larger copies."""

import random
import string
from typing import Any

import msgspec

MOST_BYTES = 2**20 - 256
_ID = "0123456789abcdefghjkmnpqrstvwxyz"
_KNOWN_FORMS = (
    ("0x[0-9a-fA-F]{40}", lambda rng: "0x" + _letters(rng, "0123456789abcdef", 40)),
    ("[0-9a-f]{64}", lambda rng: _letters(rng, "0123456789abcdef", 64)),
    ("task_", lambda rng: "task_01" + _letters(rng, _ID, 24)),
    ("node_", lambda rng: "node_01" + _letters(rng, _ID, 24)),
    ("attempt_", lambda rng: "attempt_01" + _letters(rng, _ID, 24)),
    ("stdout", lambda rng: rng.choice(("stdout", "stderr"))),
    ("A-Za-z_", lambda rng: "V" + _letters(rng, string.ascii_letters, 12)),
    ("^3", lambda _: "3.11"),
    ("[0-9]{1,2}", lambda rng: f"{rng.randrange(10)}.{rng.randrange(10)}"),
)
# Texts that make parsers and matchers work.
_TEXTS = (
    *("a?*" * 60, "|".join("ab*c" for _ in range(40)), "mon-fri 18:00-08:00, " * 40),
    *("matching regex '" * 60, "(((((" * 30, "a" * 200, "\U0001f4a9" * 60, "9" * 200, "-/.,;" * 40),
)


def _letters(rng: random.Random, letters: str, count: int) -> str:
    return "".join(rng.choices(letters, k=count))


class BodyMaker:
    """Values of a schema of the document, with many elements and long texts."""

    def __init__(self, document: dict[str, Any], rng: random.Random) -> None:
        self._schemas = document["components"]["schemas"]
        self._chance = rng

    def make(self, schema: dict[str, Any], size: int, depth: int = 0) -> Any:
        if "$ref" in schema:
            return self.make(self._schemas[schema["$ref"].rpartition("/")[2]], size, depth)
        for choices in ("oneOf", "anyOf"):
            if choices in schema:
                kinds = [variant for variant in schema[choices] if variant.get("type") != "null"]
                return self.make(self._chance.choice(kinds), size, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        return self._plain(kind, schema, size, depth)

    def _plain(self, kind: str | None, schema: dict[str, Any], size: int, depth: int) -> Any:
        if kind == "object":
            return self._object(schema, size, depth)
        if kind == "array":
            count = min(schema.get("maxItems", size), max(size >> depth, schema.get("minItems", 1)))
            prefix = [self.make(inner, size, depth + 1) for inner in schema.get("prefixItems", ())]
            items = schema.get("items")
            if prefix or not isinstance(items, dict):
                return prefix
            return [self.make(items, size, depth + 1) for _ in range(count)]
        if kind == "string":
            return self._text(schema, size)
        if kind in ("integer", "number"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            high = schema.get("maximum", 2**31)
            return self._chance.choice((low, high, self._chance.randint(int(low) + 1, int(high))))
        return self._chance.random() < 0.5

    def _object(self, schema: dict[str, Any], size: int, depth: int) -> Any:
        required = set(schema.get("required", ()))
        values = {
            name: self.make(inner, size, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if name in required or self._chance.random() < 0.6
        }
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) and not values:
            count = min(schema.get("maxProperties", size), max(1, size >> depth))
            return {f"V{number}": self.make(extra, size, depth + 1) for number in range(count)}
        return values

    def _text(self, schema: dict[str, Any], size: int) -> str:
        pattern = schema.get("pattern", "")
        for part, make in _KNOWN_FORMS:
            if part in pattern:
                return make(self._chance)
        text = self._chance.choice(_TEXTS)
        long = (text * (1 + size // len(text)))[: min(schema.get("maxLength", size), size)]
        return long or "x"


def enlarge(value: Any, rng: random.Random) -> Any:
    """A copy with one of its lists, maps or texts twice as large, or one of its values changed."""
    places = list(_places(value))
    if not places:
        return value
    path = rng.choice(places)
    return _replaced(value, path, rng)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index in {0, len(value) // 2, len(value) - 1} if value else ():
            yield from _places(value[index], (*path, index))


def _replaced(value: Any, path: tuple[Any, ...], rng: random.Random) -> Any:
    if not path:
        return _grown(value, rng)
    first, remaining = path[0], path[1:]
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = _replaced(value[first], remaining, rng)
    return copy


def _grown(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list) and value:
        return [*value, *(vary(item, rng) for item in value)]
    if isinstance(value, dict) and value:
        return {**value, **{f"{key}{rng.randrange(10**6)}": value[key] for key in list(value)}}
    if isinstance(value, str | bytes):
        return (2 * value)[: 2**19]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return rng.choice((value * 2, value + 1, 0, 10**6))
    return value


def vary(value: Any, rng: random.Random) -> Any:
    """A copy that differs, so that nothing remembers it."""
    if isinstance(value, dict):
        return {key: vary(inner, rng) for key, inner in value.items()}
    if isinstance(value, list):
        return [vary(item, rng) for item in value]
    if isinstance(value, str) and len(value) > 3 and rng.random() < 0.5:
        place = rng.randrange(len(value))
        letter = rng.choice("0123456789abcdef" if value[:2] == "0x" else _ID)
        return value[:place] + letter + value[place + 1 :] if place > 6 else value
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return value + rng.randrange(1, 50)
    return value


def encode(value: Any, packed: bool) -> bytes | None:
    """None if it is too large."""
    if isinstance(value, bytes):
        body = value
    else:
        body = (msgspec.msgpack.encode if packed else msgspec.json.encode)(value)
    return body if len(body) <= MOST_BYTES else None
