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
        request_schemas, of_requests = _side(requests, is_answer=False)
        response_schemas, of_answers = _side(answers, is_answer=True)
        names = {name: f"{name}View" for name in _differing(request_schemas, response_schemas)}
        assert not response_schemas.keys() & set(names.values()), "the name is already in use"
        self.components = request_schemas | {
            names.get(name, name): _renamed(schema, names)
            for name, schema in response_schemas.items()
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
    tidied: Schema = _tidied(schema)
    tidied.pop("title", None)
    if kind is None:
        return tidied
    if text := description(kind):
        tidied["description"] = text
    if issubclass(kind, Enum):
        return {**tidied, "type": "string", "enum": [member.value for member in kind]}
    fields = tidied.get("properties", {})
    for name, remark in remarks(kind).items():
        if name in fields:
            fields[name] = {**fields[name], "description": remark}
    for name in moments_in(kind) & fields.keys():
        fields[name] = _as_moment(fields[name])
    return _as_answer(tidied, kind) if is_answer else tidied


def _as_answer(schema: Schema, kind: type[Any]) -> Schema:
    """All fields are required, and clients must ignore fields that a newer server adds."""
    without_defaults: Schema = _without_defaults({**schema, "additionalProperties": True})
    del without_defaults["additionalProperties"]
    if is_always_whole(kind) and "properties" in without_defaults:
        without_defaults["required"] = list(without_defaults["properties"])
    return without_defaults


def _as_moment(schema: Schema) -> Schema:
    """Adds the RFC 3339 format, which msgspec omits."""
    if "anyOf" in schema:
        return {**schema, "anyOf": [_as_moment(choice) for choice in schema["anyOf"]]}
    return {**schema, "format": "date-time"} if schema.get("type") == "string" else schema


def _without_defaults(schema: Any) -> Any:
    """Responses contain every field, so their defaults would only mislead."""
    if isinstance(schema, list):
        return [_without_defaults(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    is_one = "default" in schema and "properties" not in schema
    kept_keys = {key: value for key, value in schema.items() if not (is_one and key == "default")}
    return {key: _without_defaults(value) for key, value in kept_keys.items()}


def _tidied(schema: Any) -> Any:
    """Portable patterns, tags as constants, no objects as defaults."""
    if isinstance(schema, list):
        return [_tidied(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {key: _tidied(value) for key, value in schema.items()}
    if isinstance(pattern := tidied.get("pattern"), str):
        tidied["pattern"] = portable_pattern(pattern)
    if list(tidied) == ["enum"] and len(tidied["enum"]) == 1:
        return {"type": "string", "const": tidied["enum"][0]}
    if not isinstance(tidied.get("default", ""), bool | int | float | str):
        del tidied["default"]
    return tidied


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(element, names) for element in schema]
    if isinstance(schema, dict):
        return {key: _renamed(value, names) for key, value in schema.items()}
    if isinstance(schema, str) and schema.startswith(_PLACE):
        name = schema.removeprefix(_PLACE)
        return _PLACE + names.get(name, name)
    return schema


def _differing(request_schemas: dict[str, Schema], response_schemas: dict[str, Schema]) -> set[str]:
    """The names whose two schemas differ, or refer to one that does."""
    both = request_schemas.keys() & response_schemas.keys()
    differing = {name for name in both if request_schemas[name] != response_schemas[name]}
    while True:
        more = {name for name in both - differing if differing & _names_in(response_schemas[name])}
        if not more:
            return differing
        differing |= more


def _names_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for element in schema for name in _names_in(element)}
    if isinstance(schema, dict):
        return {name for value in schema.values() for name in _names_in(value)}
    is_name = isinstance(schema, str) and schema.startswith(_PLACE)
    return {schema.removeprefix(_PLACE)} if is_name else set()
