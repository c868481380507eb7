"""Options that belong together are one value: a command takes the group, typer sees its options.

A group is a frozen dataclass whose fields are annotated as a command's parameters are. It may hold
other groups.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

R = TypeVar("R")


def grouped(command: Callable[..., R]) -> Callable[..., R]:
    """The command, with each group among its parameters spread out into options."""
    parameters = list(_parameters(command))

    @wraps(command)
    def with_groups(**said: Any) -> R:
        return command(**{each.name: _value(each, said) for each in parameters})

    options = [option for each in parameters for option in _spread(each)]
    with_groups.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {each.name: each.annotation for each in options}
    return with_groups


def _parameters(of: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(of, include_extras=True)
    for each in inspect.signature(of).parameters.values():
        yield each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)


def _spread(each: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = _group(each)
    if group is None:
        yield each
        return
    for field in _parameters(group):
        yield from _spread(field)


def _value(each: inspect.Parameter, said: dict[str, Any]) -> Any:
    group = _group(each)
    if group is None:
        return said[each.name]
    return group(**{field.name: _value(field, said) for field in _parameters(group)})


def _group(each: inspect.Parameter) -> type | None:
    kind = each.annotation
    return kind if isinstance(kind, type) and is_dataclass(kind) else None
