"""`potluck templates`: lists templates and their parameters."""

from typing import Annotated

import msgspec
import typer

from potluck.cli.completion import complete_template_names
from potluck.cli.options import JsonOption
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.local.template import (
    BUILT_IN,
    Parameter,
    Template,
    all_templates,
    find_template,
    own_templates,
)
from potluck.model.error import PotluckError


def templates(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show the details of this template; a path names a folder.",
            show_default=False,
            autocompletion=complete_template_names,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the templates for `potluck run --template NAME`."""
    screen = Screen(json)
    if name is not None:
        _show_one(screen, find_template(name))
        return
    results = list(all_templates())
    valid = [result for result in results if isinstance(result, Template)]
    if json:
        screen.emit({"templates": [_as_json(template) for template in valid]})
        return
    _show_all(screen, valid, [result for result in results if isinstance(result, PotluckError)])


def _show_all(screen: Screen, templates: list[Template], errors: list[PotluckError]) -> None:
    columns = [TableColumn("NAME"), TableColumn("DESCRIPTION", shrinks=True, wraps=True)]
    rows = [
        [Cell(template.name, Tone.STRONG), Cell(template.about.summary)] for template in templates
    ]
    show_table(screen.out, columns, rows)
    for error in errors:
        screen.err.prose(printable(error.detail), Tone.WAITING)
    screen.err.prose(
        "`potluck templates NAME` shows the parameters of a template, `potluck run --template NAME`"
        f" runs it. Your own templates are folders in {own_templates()}.",
        Tone.FAINT,
    )


def _show_one(screen: Screen, template: Template) -> None:
    if screen.json:
        screen.emit(_as_json(template))
        return
    pane = screen.out
    pane.prose(f"{template.name}: {printable(template.about.summary)}", Tone.STRONG)
    _show_parameters(pane, template.about.parameters)
    options = [f"--{name} {value}" for name, value in template.about.options.items()]
    if options:
        pane.line(f"Default options: {', '.join(options)}.")
    pane.line()
    example = "".join(f" -p {parameter}" for parameter in _examples(template))
    pane.line(f"potluck run --template {_name_or_path(template)}{example}", Tone.BUSY)
    screen.err.prose(f"It is in {template.directory}.", Tone.FAINT)


def _show_parameters(pane: Pane, parameters: dict[str, Parameter]) -> None:
    if not parameters:
        pane.line("It has no parameters.")
        return
    columns = [
        TableColumn("PARAMETER"),
        TableColumn("DEFAULT", is_number=True),
        TableColumn("VALUES"),
        TableColumn("DESCRIPTION", shrinks=True, wraps=True),
    ]
    rows = [
        [
            Cell(name, Tone.STRONG),
            Cell("" if parameter.default is None else str(parameter.default)),
            Cell(parameter.range or parameter.shape.lower()),
            Cell(parameter.help),
        ]
        for name, parameter in parameters.items()
    ]
    show_table(pane, columns, rows)


def _examples(template: Template) -> list[str]:
    """All required parameters, or else the first with its default."""
    parameters = template.about.parameters.items()
    required = [f"{name}=…" for name, parameter in parameters if parameter.default is None]
    return required or [f"{name}={parameter.default}" for name, parameter in parameters][:1]


def _name_or_path(template: Template) -> str:
    """Its name, if --template finds it by that."""
    paths = (own_templates() / template.name, BUILT_IN / template.name)
    is_found = template.directory in [path.resolve() for path in paths]
    return template.name if is_found else str(template.directory)


def _as_json(template: Template) -> dict[str, object]:
    return {
        "name": template.name,
        "directory": str(template.directory),
        **msgspec.to_builtins(template.about),
    }
