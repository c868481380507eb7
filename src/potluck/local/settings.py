"""One frozen value from options, variables and defaults, in that order; one way to complain."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from potluck.local.data_directory import named_directory
from potluck.model.decode_errors import plain
from potluck.model.error import BadSettings

T = TypeVar("T", bound=Struct)


def read(
    kind: type[T],
    prefix: str,
    options: Mapping[str, Any],
    variables: Mapping[str, str],
    given: Mapping[str, Any],
    spelled: Mapping[str, str],
) -> T:
    """`given` are values that the caller knows; `spelled` names options unlike their fields.

    An option that is None and a variable that is empty were not said.
    """
    values = dict(given)
    for field in msgspec.structs.fields(kind):
        option = spelled.get(field.name, f"--{field.name.replace('_', '-')}")
        variable = f"{prefix}{field.name.upper()}"
        if options.get(field.name) is not None:
            said = _split(options[field.name], field.type, option)
            values[field.name] = _convert(said, field.type, option)
        elif variables.get(variable):
            said = _split(variables[variable], field.type, variable)
            values[field.name] = _convert(said, field.type, variable)
    return kind(**values)


def _split(value: Any, kind: Any, source: str) -> Any:
    """Several values are written `a,b`, and pairs `1=a,2=b`."""
    wanted = get_origin(kind)
    if not isinstance(value, str) or wanted not in (tuple, Mapping):
        return value
    values = [part.strip() for part in value.split(",") if part.strip()]
    if wanted is tuple:
        return values
    pairs = [part.partition("=") for part in values]
    if not all(name and said for name, _, said in pairs):
        raise BadSettings(f"{source} is not made of pairs.", f"Write {source} as 1=…,2=…")
    return {name.strip(): said.strip() for name, _, said in pairs}


def _convert(value: Any, kind: Any, source: str) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        # Not what was said: it may be an address with a password in it.
        raise BadSettings(f"{source}: {plain(str(error))}.", _advice(kind, source)) from error


def _advice(kind: Any, source: str) -> str:
    named = [each for each in (kind, *get_args(kind)) if isinstance(each, type)]
    choices = [member.value for each in named if issubclass(each, StrEnum) for member in each]
    return f"It is one of: {', '.join(choices)}." if choices else f"Change {source}."


def _path(kind: type, value: Any) -> Any:
    assert kind is Path, "nothing else needs more than the codec knows"
    return named_directory(value)
