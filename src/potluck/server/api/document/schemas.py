"""The schemas, from the types that the codec decodes and encodes.

Requests and responses differ. A request may omit fields with a default and must not contain unknown
ones; a response has all of its fields, and may gain more. A type that differs is listed twice, with
`View` appended to the name of its response form.
"""

from enum import Enum
from typing import Any

import msgspec

from potluck.model.bounded_types import portable_pattern
from potluck.server.api.document.types import (
    description,
    is_always_whole,
    kinds_in,
    moments_in,
    remarks,
)

Schema = dict[str, Any]
_PLACE = "#/components/schemas/"
_STRICT = "Strict"  # the prefix of names in `wire/strict_types.py`


class Schemas:
    def __init__(self, requests: list[Any], answers: list[Any]) -> None:
        asked, of_requests = _side(requests, is_answer=False)
        given, of_answers = _side(answers, is_answer=True)
        names = {name: f"{name}View" for name in _differing(asked, given)}
        assert not given.keys() & set(names.values()), "the name is already in use"
        self.components = asked | {
            names.get(name, name): _renamed(schema, names) for name, schema in given.items()
        }
        self._requests: dict[str, Schema] = dict(zip(map(repr, requests), of_requests, strict=True))
        self._answers: dict[str, Schema] = {
            repr(kind): _renamed(schema, names)
            for kind, schema in zip(answers, of_answers, strict=True)
        }

    def of_request(self, kind: Any) -> Schema:
        return self._requests[repr(kind)]

    def of_answer(self, kind: Any) -> Schema:
        return self._answers[repr(kind)]


def _side(kinds: list[Any], is_answer: bool) -> tuple[dict[str, Schema], list[Schema]]:
    """The named schemas of these types, and each type as a reference or in full."""
    roots, components = msgspec.json.schema_components(kinds, ref_template=_PLACE + "{name}")
    by_name = kinds_in(kinds)
    names = {name: name.removeprefix(_STRICT) for name in components}
    completed = {
        name: _completed(schema, by_name.get(name), is_answer)
        for name, schema in components.items()
    }
    renamed = {names[name]: _renamed(schema, names) for name, schema in completed.items()}
    return renamed, [_renamed(_tidied(root), names) for root in roots]


def _completed(schema: Schema, kind: type[Any] | None, is_answer: bool) -> Schema:
    """Adds descriptions, and facts about our responses that msgspec cannot know."""
    found: Schema = _tidied(schema)
    found.pop("title", None)
    if kind is None:
        return found
    if said := description(kind):
        found["description"] = said
    if issubclass(kind, Enum):
        return {**found, "type": "string", "enum": [member.value for member in kind]}
    fields = found.get("properties", {})
    for name, remark in remarks(kind).items():
        if name in fields:
            fields[name] = {**fields[name], "description": remark}
    for name in moments_in(kind) & fields.keys():
        fields[name] = _as_moment(fields[name])
    return _as_answer(found, kind) if is_answer else found


def _as_answer(schema: Schema, kind: type[Any]) -> Schema:
    """All fields are required, and clients must ignore fields that a newer server adds."""
    found: Schema = _without_defaults({**schema, "additionalProperties": True})
    del found["additionalProperties"]
    if is_always_whole(kind) and "properties" in found:
        found["required"] = list(found["properties"])
    return found


def _as_moment(schema: Schema) -> Schema:
    """Adds the RFC 3339 format, which msgspec omits."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_as_moment(each) for each in schema["anyOf"]]}
    return {**schema, "format": "date-time"} if schema.get("type") == "string" else schema


def _without_defaults(schema: Any) -> Any:
    """Responses contain every field, so their defaults would only mislead."""
    if isinstance(schema, list):
        return [_without_defaults(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_one = "default" in schema and "properties" not in schema
    kept = {key: value for key, value in schema.items() if not (is_one and key == "default")}
    return {key: _without_defaults(value) for key, value in kept.items()}


def _tidied(schema: Any) -> Any:
    """Portable patterns, tags as constants, no objects as defaults."""
    if isinstance(schema, list):
        return [_tidied(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _tidied(value) for key, value in schema.items()}
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = portable_pattern(pattern)
    if list(found) == ["enum"] and len(found["enum"]) == 1:
        return {"type": "string", "const": found["enum"][0]}
    if not isinstance(found.get("default", ""), bool | int | float | str):
        del found["default"]
    return found


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, names) for each in schema]
    if isinstance(schema, dict):
        return {key: _renamed(value, names) for key, value in schema.items()}
    if isinstance(schema, str) and schema.startswith(_PLACE):
        name = schema.removeprefix(_PLACE)
        return _PLACE + names.get(name, name)
    return schema


def _differing(asked: dict[str, Schema], given: dict[str, Schema]) -> set[str]:
    """The names whose two schemas differ, or refer to one that does."""
    both = asked.keys() & given.keys()
    found = {name for name in both if asked[name] != given[name]}
    while True:
        more = {name for name in both - found if found & _names_in(given[name])}
        if not more:
            return found
        found |= more


def _names_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for each in schema for name in _names_in(each)}
    if isinstance(schema, dict):
        return {name for each in schema.values() for name in _names_in(each)}
    is_name = isinstance(schema, str) and schema.startswith(_PLACE)
    return {schema.removeprefix(_PLACE)} if is_name else set()
