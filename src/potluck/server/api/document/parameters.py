"""What an operation is told besides its body: the framework finds them, and we tidy them up."""

from typing import Any

from potluck.model.bounded_types import END
from potluck.server.api.document.schemas import Schema
from potluck.server.api.examples.names import IN_PATHS

# Of one meaning wherever they are; a handler's own `description` goes before.
_SAID = {
    "Idempotency-Key": "With it the request may be repeated: the same key and the same body get "
    "the same answer, another body a 409. Up to 200 printable characters of your choice.",
    "Last-Event-ID": "The `id` of the last event that you have: the stream goes on behind it.",
    "Potluck-Lease": "The token of the attempt's lease.",
    "attempt": "The number of an attempt; the newest, if not said.",
    "attempt_id": "The id of the attempt that needs it.",
    "by": "What the lines of the answer stand for.",
    "cursor": "Where the page before ended: its `next_cursor`.",
    "free_milli": "At least so many thousandths of the device are free.",
    "item": "The number of an item of an array.",
    "kind": "Of this kind only.",
    "label": "The node has this label; may be said several times.",
    "limit": "How many at most.",
    "max_price_micro_per_hour": "It costs at most so many micro-credits per hour.",
    "memory_bytes": "The device has at least so much memory.",
    "min_reliability": "At least this share of its node's attempts came to an end.",
    "model": "A pattern, such as `RTX 40*|A100`; case does not matter.",
    "name": "With exactly this name.",
    "offset": "So many pieces are known already.",
    "since": "From this time on (RFC 3339, with an offset).",
    "state": "In this state; may be said several times.",
    "task_id": "About this task only.",
    "until": "Before this time (RFC 3339, with an offset).",
    "vendor": "Of this vendor; case does not matter.",
}


def parameters(said: dict[str, Any]) -> list[Schema]:
    return [_parameter(each) for each in said.get("parameters", [])]


def _parameter(given: dict[str, Any]) -> Schema:
    name, place = given["name"], given["in"]
    found: Schema = {"name": name, "in": place, "required": given.get("required", False)}
    if place == "path" and name in IN_PATHS:
        named = IN_PATHS[name]
        return {
            **found,
            "description": named.description,
            "schema": {"type": "string"},
            "example": named.example,
        }
    if description := given.get("description") or _SAID.get(name):
        found["description"] = description
    return {**found, "schema": _tidied(given["schema"])}


def _tidied(schema: dict[str, Any]) -> Schema:
    """Nothing is null in a path, a query or a header; and whole numbers have whole bounds."""
    choices = schema.get("oneOf", [])
    beside = {key: value for key, value in schema.items() if key != "oneOf"}
    if choices:
        (only,) = [each for each in choices if each != {"type": "null"}]
        return _tidied({**only, **beside})
    found = {key: _whole(value) for key, value in beside.items()}
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = pattern.replace(END, "$")
    return found


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
