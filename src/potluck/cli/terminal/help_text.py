"""Help pages: a usage line, paragraphs as wide as the terminal, and panels; command groups.

They are drawn here, without Python types: importing rich takes longer than most commands run.
"""

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from typer import _completion_classes
from typer.core import TyperGroup

from potluck.cli.terminal.screen import Pane, Screen, Tone

# Longer lists of choices go into the help sentence, where they can wrap between words.
_SHORT = 16
_WIDEST = 120
_WIDEST_NAME = 30  # the help of a longer one begins on the next line
_HELP = ("-h", "--help")

Rows = list[tuple[str, str]]


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    pane = Screen().out
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    formatter.write(f"\n {command.get_usage(ctx).strip()}\n\n")
    for paragraph in (join_lines(command.help) or "").split("\n\n"):
        formatter.write(_indent(paragraph, width) + "\n\n")
    for panels in (_parameter_panels(command, ctx), _command_panels(command)):
        names = [len(name) for rows in panels.values() for name, _ in rows]
        indent = 2 + max((size for size in names if size <= _WIDEST_NAME), default=_WIDEST_NAME)
        for title, rows in panels.items():
            formatter.write("\n".join(_draw_panel(pane, title, rows, width, indent)) + "\n")


def _indent(paragraph: str, width: int) -> str:
    """Wraps a paragraph; a block of examples keeps its lines."""
    if "\n" in paragraph:
        return textwrap.indent(paragraph, " ")
    return textwrap.fill(
        paragraph, width - 1, initial_indent=" ", subsequent_indent=" ", break_on_hyphens=False
    )


def _parameter_panels(command: Any, ctx: Any) -> dict[str, Rows]:
    panels: dict[str, Rows] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        is_argument = parameter.param_type_name == "argument"
        title = _panel_of(parameter) or ("Arguments" if is_argument else "Options")
        if row := parameter.get_help_record(ctx):
            panels.setdefault(title, []).append(row)
    return {title: rows for title, rows in panels.items() if rows}


def _command_panels(group: Any) -> dict[str, Rows]:
    panels: dict[str, Rows] = {}
    for name, part in getattr(group, "commands", {}).items():
        if not part.hidden:
            row = (name, join_lines(part.help) or "")
            panels.setdefault(_panel_of(part) or "Commands", []).append(row)
    return panels


def _panel_of(part: Any) -> str | None:
    panel = getattr(part, "rich_help_panel", None)
    return panel if isinstance(panel, str) else None


def _draw_panel(pane: Pane, title: str, rows: Rows, width: int, indent: int) -> Iterator[str]:
    edge = pane.paint("│", Tone.FAINT)
    yield pane.paint(f"╭─ {title} {'─' * (width - len(title) - 5)}╮", Tone.FAINT)
    for name, text in rows:
        lines = textwrap.wrap(text, width - 4 - indent, break_on_hyphens=False) or [""]
        firsts = [name] + [""] * (len(lines) - 1)
        if len(name) > _WIDEST_NAME:
            lines, firsts = ["", *lines], [name] + [""] * len(lines)
        for first, line in zip(firsts, lines, strict=True):
            gap = " " * (max(indent, len(first)) - len(first))
            fill = " " * (width - 4 - max(indent, len(first)) - len(line))
            yield f"{edge} {pane.paint(first, Tone.BUSY)}{gap}{line}{fill} {edge}"
    yield pane.paint(f"╰{'─' * (width - 2)}╯", Tone.FAINT)


def join_lines(text: str | None) -> str | None:
    """Removes the source's line breaks within paragraphs."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith("  ") else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def simplify_parameters(parameters: Iterable[Any]) -> Iterator[Any]:
    """Shows a placeholder such as `SIZE` for each parameter's value instead of its Python type."""
    for parameter in parameters:
        if not getattr(parameter, "is_simplified", False):
            word = _placeholder(parameter)
            parameter.display_type_rich = lambda ctx, word=word: word  # noqa: ARG005 - typer's own
            parameter._get_number_range_help_str = lambda: None  # the error names the range
            parameter.is_simplified = True
            if hasattr(parameter, "_runtime_param"):
                parameter._runtime_param = QuickCoercion()
        yield parameter


class QuickCoercion:
    """Accepts values that have the right type already; typer converts others with pydantic.

    Importing pydantic takes as long as all of our own modules, and most commands do without.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        annotation = param.type_descriptor.annotation
        is_multiple = param.multiple or param.nargs == -1
        if value is None:
            return () if is_multiple else None
        if not is_multiple and annotation is type(value):
            return value
        if is_multiple and annotation == list[str] and not isinstance(value, str):
            return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


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


class PlainGroup(TyperGroup):
    """A group with simplified parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(simplify_parameters(super().get_params(ctx)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)

    def _main_shell_completion(self, *arguments: Any, **options: Any) -> None:
        # Help texts have no markup; to remove it, typer would import rich.
        _completion_classes._sanitize_help_text = lambda text: text
        super()._main_shell_completion(*arguments, **options)


class HelpGroup(PlainGroup):
    """Shows its help if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))


class ListingGroup(PlainGroup):
    """Runs its default if no command is named: `potluck keys` is `potluck keys list`."""

    default = "list"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in _HELP or not args[0].startswith("-"))
        if ctx.resilient_parsing:  # shell completion
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, args if is_named else [self.default, *args])
