"""Parameters of operations: found by the framework, described and simplified here."""

from typing import Any

from potluck.model.bounded_types import portable_pattern
from potluck.server.api.document.schemas import Schema
from potluck.server.api.examples.names import IN_PATHS

# The same meaning in every operation; a handler's own `description` takes precedence.
_SAID = {
    "Idempotency-Key": "Makes the request safe to repeat: the same key and body get the same "
    "response, another body a 409. Up to 200 printable characters of your choice.",
    "Last-Event-ID": "The `id` of the last event that you received; the stream resumes after it.",
    "Potluck-Lease": "The token of the attempt's lease.",
    "attempt": "The number of an attempt; by default the newest.",
    "attempt_id": "The id of the attempt that needs it.",
    "by": "What each line of the summary covers.",
    "cursor": "The `next_cursor` of the previous page.",
    "free_milli": "At least this many thousandths of the device are free.",
    "item": "The number of an item of an array.",
    "kind": "Only this kind.",
    "label": "The node has this label; can be repeated.",
    "limit": "The maximum number of entries.",
    "max_price_micro_per_hour": "The maximum price, in micro-credits per hour.",
    "memory_bytes": "The minimum memory of the device.",
    "min_reliability": "The minimum share of its node's attempts that were not lost.",
    "mine": "Only your own machines.",
    "model": "A pattern, such as `RTX 40*|A100`; case does not matter.",
    "find": "Only with this part in the name, in upper or lower case. Such a page can have fewer"
    " tasks than the limit, or none, and still have a `next_cursor`.",
    "name": "Only this exact name.",
    "offset": "The number of log pieces that you already have; negative: from the end.",
    "since": "From this time on (RFC 3339, with an offset).",
    "state": "Only this state; can be repeated.",
    "task_id": "Only this task.",
    "side": "As the owner of the machines, or of the tasks.",
    "node_id": "Only those of this node.",
    "last": "The `last` of the previous page.",
    "until": "Before this time (RFC 3339, with an offset).",
    "vendor": "Only this vendor; case does not matter.",
}


def parameters(described: dict[str, Any]) -> list[Schema]:
    return [_parameter(parameter) for parameter in described.get("parameters", [])]


def _parameter(described: dict[str, Any]) -> Schema:
    name, place = described["name"], described["in"]
    parameter: Schema = {"name": name, "in": place, "required": described.get("required", False)}
    if place == "path" and name in IN_PATHS:
        named = IN_PATHS[name]
        return {
            **parameter,
            "description": named.description,
            "schema": {"type": "string"},
            "example": named.example,
        }
    if description := described.get("description") or _SAID.get(name):
        parameter["description"] = description
    return {**parameter, "schema": _tidied(described["schema"])}


def _tidied(schema: dict[str, Any]) -> Schema:
    """Parameters are never null, and integers have integer bounds."""
    choices = schema.get("oneOf", [])
    beside = {key: value for key, value in schema.items() if key != "oneOf"}
    if choices:
        (only,) = [choice for choice in choices if choice != {"type": "null"}]
        return _tidied({**only, **beside})
    merged = {key: _whole(value) for key, value in beside.items()}
    if isinstance(pattern := merged.get("pattern"), str):
        merged["pattern"] = portable_pattern(pattern)
    return merged


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
