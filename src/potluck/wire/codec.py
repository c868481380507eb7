"""Encodes and decodes JSON and MessagePack, and stored task specs.

Errors of msgspec become InvalidInput. MessagePack holds the same values in fewer bytes, and carries
bytes without escaping.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo

from potluck.model.bounded_types import DECEIVING
from potluck.model.decode_errors import describe_bound, plain_message, split_path
from potluck.model.error import InvalidInput
from potluck.model.task_spec import TaskSpec

T = TypeVar("T")


def encode_json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        # Python represents bytes of a command line that are not UTF-8 as lone surrogates.
        raise InvalidInput("A text is not valid UTF-8.", "Write it in UTF-8.") from error


def encode_request(value: Struct) -> bytes:
    """Encodes without fields that have their default.

    Servers refuse fields that they do not know. So an earlier one takes the request of a later
    client as long as it uses nothing new.
    """
    return encode_json(_without_defaults(value))


def _without_defaults(value: Any) -> Any:
    if isinstance(value, Struct) and value.__struct_config__.array_like:
        return _without_last_defaults(value)
    if isinstance(value, Struct):
        return _tag(value) | {
            field.encode_name: _without_defaults(field_value)
            for field in _fields(type(value))
            if (field_value := getattr(value, field.name)) is not UNSET
            and not _is_default(field, field_value)
        }
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_defaults(item) for name, item in value.items()}
    return value


def _without_last_defaults(value: Struct) -> list[Any]:
    """For a struct that is a list, where only the end can be omitted."""
    fields = [*_fields(type(value))]
    while fields and _is_default(fields[-1], getattr(value, fields[-1].name)):
        fields.pop()
    return [_without_defaults(getattr(value, field.name)) for field in fields]


_fields = cache(msgspec.structs.fields)


def _tag(value: Struct) -> dict[str, Any]:
    config = value.__struct_config__
    return {} if config.tag_field is None else {config.tag_field: config.tag}


def _is_default(field: FieldInfo, field_value: object) -> bool:
    default = field.default
    if field.default_factory is not NODEFAULT:
        default = field.default_factory()
    return type(field_value) is type(default) and field_value == default


def decode_json(body: bytes | str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except _NOT_DECODABLE as error:
        if str(error) == _CUT_SHORT and _is_whole(body):
            raise InvalidInput(
                "A text in the body contains half of a surrogate pair.", "Write it in UTF-8."
            ) from error
        raise _invalid(error) from error


def decode_stored(data: bytes | str, kind: type[T]) -> T:
    """Decodes what the server stored itself; characters that were refused later are replaced.

    One name of an earlier version must not stop the scheduler, or a list of everybody's nodes.
    """
    try:
        return decode_json(data, kind)
    except InvalidInput:
        text = data if isinstance(data, str) else data.decode()
        return decode_json(re.sub(f"[{DECEIVING}]", "?", text), kind)


def encode_packed(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def decode_packed(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except _NOT_DECODABLE as error:
        if str(error) == _CUT_SHORT:
            raise InvalidInput("The MessagePack in the body is incomplete.", _HINT) from error
        raise _invalid(error) from error


# Invalid UTF-8 and deep nesting raise other errors than msgspec's own.
_NOT_DECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


# Also the error for JSON text that ends in the first half of a surrogate pair.
_CUT_SHORT = "Input data was truncated"
_HINT = "Compare it with /schema/openapi.json."


def _is_whole(body: bytes | str) -> bool:
    """Uses a parser that accepts half of a surrogate pair."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _invalid(error: Exception) -> InvalidInput:
    if isinstance(error, RecursionError):
        return InvalidInput("The body is nested too deeply.")
    if isinstance(error, UnicodeError):
        return InvalidInput("The body is not valid UTF-8.")
    return InvalidInput(f"The body is not valid: {plain_message(str(error))}.", _HINT)


@contextmanager
def naming_invalid_field(body: msgspec.Struct | None) -> Iterator[None]:
    """Names the field of the request: servers speak of its body, which users do not see."""
    try:
        yield
    except InvalidInput as error:
        problem = None if body is None else _find_invalid_field(body)
        raise problem or error from None


def _find_invalid_field(value: msgspec.Struct) -> InvalidInput | None:
    """The first field that breaks its bounds, in words for people; None if all are valid."""
    try:
        msgspec.convert(msgspec.to_builtins(value), type(value))
    except msgspec.ValidationError as error:
        sentence, path = split_path(error)
        name = path.replace("_", " ") or "request"
        return InvalidInput(f"The {name} is not valid: {describe_bound(sentence)}.")
    return None


class _StoredSpec(msgspec.Struct, frozen=True):
    spec: TaskSpec


def decode_spec(stored: bytes) -> TaskSpec:
    return decode_json(b'{"spec":' + stored + b"}", _StoredSpec).spec
