"""Settings as one frozen value, from options, variables and defaults, in that order."""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from potluck.local.data_directory import part_directory, resolve_directory
from potluck.model.decode_errors import plain_message, split_path
from potluck.model.error import BadSettings

T = TypeVar("T", bound=Struct)

# One or two wrong letters; no variable of another part is as similar to a setting.
_SIMILARITY = 0.9


def read_values(
    kind: type[T],
    prefix: str,
    options: Mapping[str, Any],
    variables: Mapping[str, str],
    explicit: Mapping[str, Any],
    spelled: Mapping[str, str],
) -> T:
    """`given` are the caller's defaults; `spelled` has the options that differ from their fields.

    An option that is None and an empty variable count as unset.
    """
    values = dict(explicit)
    for field in msgspec.structs.fields(kind):
        option = spelled.get(field.name, f"--{field.name.replace('_', '-')}")
        variable = f"{prefix}{field.name.upper()}"
        if options.get(field.name) is not None:
            values[field.name] = _convert(options[field.name], field.type, option)
        elif variables.get(variable):
            values[field.name] = _convert(variables[variable], field.type, variable)
    return kind(**values)


def find_misspelt(kind: type[Struct], prefix: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that are almost the name of a setting, and that name: they would be ignored."""
    known = [f"{prefix}{field.name.upper()}" for field in msgspec.structs.fields(kind)]
    unknown = [name for name in variables if name.startswith(prefix) and name not in known]
    similar = {name: get_close_matches(name, known, 1, _SIMILARITY) for name in unknown}
    return {name: matches[0] for name, matches in similar.items() if matches}


def with_part_directory(
    part: Literal["server", "provider"], options: Mapping[str, Any]
) -> dict[str, Any]:
    """`--data-dir` names the directory of all parts."""
    name = options.get("data_directory")
    directory = None if name is None else part_directory(part, name)
    return {**options, "data_directory": directory}


def _split(value: Any, kind: Any, source: str) -> Any:
    """Several values are written `a,b`, and pairs `1=a,2=b`."""
    container = get_origin(kind)
    if not isinstance(value, str) or container not in (tuple, Mapping):
        return value
    values = [part.strip() for part in value.split(",") if part.strip()]
    if container is tuple:
        return values
    pairs = [part.partition("=") for part in values]
    if not all(name and text for name, _, text in pairs):
        raise BadSettings(f"{source} does not consist of pairs.", f"Write {source} as 1=…,2=…")
    found = {name.strip(): text.strip() for name, _, text in pairs}
    if len(found) < len(pairs):
        raise BadSettings(f"{source} has a name twice.", "Write each once.")
    return found


def _convert(value: Any, kind: Any, source: str) -> Any:
    try:
        return msgspec.convert(_split(value, kind, source), kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        # The value is not shown: it may be a URL with a password.
        why = plain_message(split_path(error)[0])
        raise BadSettings(f"{source}: {why}.", _hint(kind, source)) from error


def _hint(kind: Any, source: str) -> str:
    types = [part for part in (kind, *get_args(kind)) if isinstance(part, type)]
    choices = [member.value for part in types if issubclass(part, StrEnum) for member in part]
    return f"Choose from: {', '.join(choices)}." if choices else f"Change {source}."


def _path(kind: type, value: Any) -> Any:
    assert kind is Path, "the codec converts all other types"
    return resolve_directory(value)
