"""One frozen value from options, variables and defaults, in that order; one way to complain."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from potluck.local.directory import named_directory
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
            values[field.name] = _convert(options[field.name], field.type, option)
        elif variables.get(variable):
            values[field.name] = _convert(variables[variable], field.type, variable)
    return kind(**values)


def _convert(value: Any, kind: Any, source: str) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise BadSettings(f"{source} is {value!r}: {error}.", f"Change {source}.") from error


def _path(kind: type, value: Any) -> Any:
    assert kind is Path, "nothing else needs more than the codec knows"
    return named_directory(value)
