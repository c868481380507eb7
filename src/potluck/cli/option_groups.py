"""Options that belong together are one value: a command takes the group, typer sees its options.

A group is a frozen dataclass whose fields are annotated as a command's parameters are. It may hold
other groups. If it has a `panel`, that is where the help shows those of its options that name no
other.
"""

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

R = TypeVar("R")
GENERAL = "Options"  # typer's own panel, of options that name none


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
    panel: str | None = getattr(group, "panel", None)
    for field in _parameters(group):
        for option in _spread(field):
            yield option if panel is None else _within(option, panel)


def _within(each: inspect.Parameter, panel: str) -> inspect.Parameter:
    """The option in the panel; a copy, since other commands may have it elsewhere."""
    kind, said = get_args(each.annotation)
    shown = copy(said)
    shown.rich_help_panel = said.rich_help_panel or panel
    return each.replace(annotation=Annotated[kind, shown])


def _value(each: inspect.Parameter, said: dict[str, Any]) -> Any:
    group = _group(each)
    if group is None:
        return said[each.name]
    return group(**{field.name: _value(field, said) for field in _parameters(group)})


def _group(each: inspect.Parameter) -> type | None:
    kind = each.annotation
    return kind if isinstance(kind, type) and is_dataclass(kind) else None
