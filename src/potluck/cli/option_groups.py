"""Option groups: a command takes one value per group, and typer sees the group's options.

A group is a frozen dataclass whose fields are annotated like a command's parameters. It may contain
other groups. Its `panel`, if any, is the help panel of those options that name no panel.
"""

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args

R = TypeVar("R")


def expand_option_groups(command: Callable[..., R]) -> Callable[..., R]:
    """Replaces each group among the command's parameters by its options."""
    parameters = list(_parameters(command))

    @wraps(command)
    def with_groups(**values: Any) -> R:
        return command(**{parameter.name: _value(parameter, values) for parameter in parameters})

    options = [option for parameter in parameters for option in _options(parameter)]
    with_groups.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {option.name: option.annotation for option in options}
    return with_groups


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = _group(parameter)
    if group is None:
        yield parameter
        return
    panel: str | None = getattr(group, "panel", None)
    for field in _parameters(group):
        for option in _options(field):
            yield option if panel is None else _with_panel(option, panel)


def _with_panel(option: inspect.Parameter, panel: str) -> inspect.Parameter:
    """A copy, since other commands may show the option in another panel."""
    kind, shared = get_args(option.annotation)
    info = copy(shared)
    info.rich_help_panel = shared.rich_help_panel or panel
    return option.replace(annotation=Annotated[kind, info])


def _value(parameter: inspect.Parameter, values: dict[str, Any]) -> Any:
    group = _group(parameter)
    if group is None:
        return values[parameter.name]
    return group(**{field.name: _value(field, values) for field in _parameters(group)})


def _group(parameter: inspect.Parameter) -> type | None:
    kind = parameter.annotation
    return kind if isinstance(kind, type) and is_dataclass(kind) else None
