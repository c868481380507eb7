"""Encodes and decodes JSON and MessagePack, and stored task specs.

Errors of msgspec become InvalidInput. MessagePack holds the same values in fewer bytes, and carries
bytes without escaping.
"""

import json
import re
from typing import Any, TypeVar

import msgspec

from potluck.model.bounded_types import DECEIVING
from potluck.model.decode_errors import plain_message
from potluck.model.error import InvalidInput
from potluck.model.task_spec import TaskSpec

T = TypeVar("T")


def encode_json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        # Python represents bytes of a command line that are not UTF-8 as lone surrogates.
        raise InvalidInput("A text is not valid UTF-8.", "Write it in UTF-8.") from error


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


class _StoredSpec(msgspec.Struct, frozen=True):
    spec: TaskSpec


def decode_spec(kept: bytes) -> TaskSpec:
    return decode_json(b'{"spec":' + kept + b"}", _StoredSpec).spec
