"""`potluck templates`: ready tasks, and what each of them can be told."""

from typing import Annotated

import msgspec
import typer

from potluck.cli.completion import template_names
from potluck.cli.options import JsonOption
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.local.template import BUILT_IN, Template, all_templates, own_templates, template
from potluck.local.template_parameter import Parameter
from potluck.model.error import PotluckError


def templates(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Tell all about this one; a path names a folder.",
            show_default=False,
            autocompletion=template_names,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the ready tasks that `potluck run --template NAME` knows."""
    screen = Screen(json)
    if name is not None:
        _show_one(screen, template(name))
        return
    found = list(all_templates())
    if json:
        usable = [_for_programs(each) for each in found if isinstance(each, Template)]
        screen.emit({"templates": usable})
        return
    _show_all(screen, found)


def _show_all(screen: Screen, found: list[Template | PotluckError]) -> None:
    columns = [TableColumn("NAME"), TableColumn("WHAT IT DOES", shrinks=True, wraps=True)]
    rows = [
        [Cell(each.name, Tone.STRONG), Cell(each.about.summary)]
        for each in found
        if isinstance(each, Template)
    ]
    show_table(screen.out, columns, rows)
    for each in found:
        if isinstance(each, PotluckError):
            screen.err.prose(printable(each.detail), Tone.WAITING)
    screen.err.prose(
        "`potluck templates NAME` tells what one can be told, `potluck run --template NAME` runs"
        f" it. One of your own is a folder in {own_templates()}.",
        Tone.FAINT,
    )


def _show_one(screen: Screen, found: Template) -> None:
    if screen.json:
        screen.emit(_for_programs(found))
        return
    pane = screen.out
    pane.prose(f"{found.name}: {printable(found.about.summary)}", Tone.STRONG)
    _show_parameters(pane, found.about.parameters)
    asks = [f"--{name} {value}" for name, value in found.about.options.items()]
    if asks:
        pane.line(f"Asks for {', '.join(asks)}, if you do not.")
    pane.line()
    example = "".join(f" -p {each}" for each in _examples(found))
    pane.line(f"potluck run --template {_spelled(found)}{example}", Tone.BUSY)
    screen.err.prose(f"It is in {found.directory}.", Tone.FAINT)


def _show_parameters(pane: Pane, parameters: dict[str, Parameter]) -> None:
    if not parameters:
        pane.line("It has no parameters.")
        return
    columns = [
        TableColumn("PARAMETER"),
        TableColumn("DEFAULT", is_number=True),
        TableColumn("CAN BE"),
        TableColumn("WHAT IT IS", shrinks=True, wraps=True),
    ]
    rows = [
        [
            Cell(name, Tone.STRONG),
            Cell("" if each.default is None else str(each.default)),
            Cell(each.range or each.shape.lower()),
            Cell(each.help),
        ]
        for name, each in parameters.items()
    ]
    show_table(pane, columns, rows)


def _examples(found: Template) -> list[str]:
    """One that is typed as it could be typed, and all that must be."""
    known = found.about.parameters
    required = [f"{name}=…" for name, each in known.items() if each.default is None]
    chosen = next((f"{name}={each.default}" for name, each in known.items()), None)
    return required or ([chosen] if chosen else [])


def _spelled(found: Template) -> str:
    """By its name where that finds it."""
    places = (own_templates() / found.name, BUILT_IN / found.name)
    is_known = found.directory in [place.resolve() for place in places]
    return found.name if is_known else str(found.directory)


def _for_programs(found: Template) -> dict[str, object]:
    return {
        "name": found.name,
        "directory": str(found.directory),
        **msgspec.to_builtins(found.about),
    }
