"""Help texts without Python types, in paragraphs as wide as the terminal; command groups."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from typer.core import TyperGroup

# Longer lists of choices go into the help sentence, where they can wrap between words.
_SHORT = 16


def join_lines(text: str | None) -> str | None:
    """Removes the source's line breaks within paragraphs."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def simplify_parameters(parameters: Iterable[Any]) -> Iterator[Any]:
    """Shows a placeholder such as `SIZE` for each parameter's value instead of its Python type."""
    for parameter in parameters:
        if not getattr(parameter, "is_simplified", False):
            word = _placeholder(parameter)
            parameter.display_type_rich = lambda ctx, word=word: word  # noqa: ARG005 - typer's own
            parameter._get_number_range_help_str = lambda: None  # the error names the range
            parameter.is_simplified = True
        yield parameter


def _placeholder(parameter: Any) -> str:
    """Empty for flags and for arguments, whose name is the placeholder."""
    if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
        return ""
    if parameter.metavar is not None:
        return str(parameter.metavar)
    choices = _choices(parameter)
    if not choices:
        return "N" if _is_number(parameter) else "TEXT"
    if len("|".join(choices)) <= _SHORT:
        return "|".join(choices)
    parameter.help = f"{(parameter.help or '').rstrip('.')}: {', '.join(choices)}."
    return str(parameter.name).upper().rpartition("_")[2]


def _choices(parameter: Any) -> list[str]:
    descriptor = getattr(parameter, "type_descriptor", None)
    return [str(choice) for choice in getattr(descriptor, "choices", None) or ()]


def _is_number(parameter: Any) -> bool:
    descriptor = getattr(parameter, "type_descriptor", None)
    is_ranged = bool(getattr(descriptor, "is_ranged", False))
    return is_ranged or getattr(descriptor, "annotation", None) in (int, float)


_HELP = ("-h", "--help")


class PlainGroup(TyperGroup):
    """A group with simplified parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(simplify_parameters(super().get_params(ctx)))


class HelpGroup(PlainGroup):
    """Shows its help if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))


class ListingGroup(PlainGroup):
    """Runs `list` if no command is named: `potluck keys` is `potluck keys list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in _HELP or not args[0].startswith("-"))
        if ctx.resilient_parsing:  # shell completion
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, args if is_named else ["list", *args])
