"""Help that people read: no types of Python's, and paragraphs that are as wide as the terminal."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from typer.core import TyperGroup

# Longer lists of choices stand in the sentence, where they may be broken between words.
_SHORT = 16


def joined(text: str | None) -> str | None:
    """Paragraphs without the line breaks of the source."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def plainly(parameters: Iterable[Any]) -> Iterator[Any]:
    """The parameters of a command, each with a word for what is typed behind it."""
    for each in parameters:
        if not getattr(each, "is_told_plainly", False):
            word = _word(each)
            each.display_type_rich = lambda ctx, word=word: word  # noqa: ARG005 - typer's own
            each._get_number_range_help_str = lambda: None  # who is outside is told the range
            each.is_told_plainly = True
        yield each


def _word(parameter: Any) -> str:
    """`SIZE` for what has a name; nothing for a flag, and for an argument, which is one."""
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
    described = getattr(parameter, "type_descriptor", None)
    return [str(each) for each in getattr(described, "choices", None) or ()]


def _is_number(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None)
    return bool(getattr(described, "is_ranged", False)) or _annotated(described) in (int, float)


def _annotated(described: Any) -> Any:
    return getattr(described, "annotation", None)


_HELP = ("-h", "--help")


class PlainGroup(TyperGroup):
    """With help that people read."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(plainly(super().get_params(ctx)))


class Helping(PlainGroup):
    """Tells which commands there are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))


class ListingGroup(PlainGroup):
    """Lists what there is: `potluck keys` is `potluck keys list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in _HELP or not args[0].startswith("-"))
        if ctx.resilient_parsing:  # the shell asks what could stand here
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, args if is_named else ["list", *args])
