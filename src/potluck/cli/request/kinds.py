"""What is run: a script, a command, an image or a template."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from potluck.cli.completion import template_names
from potluck.cli.option_groups import GENERAL
from potluck.cli.request.task_kind import Way
from potluck.local.template import template as named_template


def _defaults_of(context: typer.Context, name: str | None) -> str | None:
    """A template's options stand in the place of our defaults, so what is typed still wins."""
    if name is not None and not context.resilient_parsing:
        said = named_template(name).about.options.said()
        context.default_map = {**(context.default_map or {}), **said}
    return name


@dataclass(frozen=True)
class KindOptions:
    """And with which variables."""

    panel: ClassVar = "What is run, if no script"

    command: Annotated[
        bool,
        typer.Option(
            "--command", help="A program of the node, such as nvidia-smi, with its arguments."
        ),
    ] = False
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="A container image; what follows is the command in it, if not its own.",
        ),
    ] = None
    template: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=_defaults_of,
            is_eager=True,
            autocompletion=template_names,
            help="A ready task, or the path of a folder with one; `potluck templates` lists them.",
        ),
    ] = None
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="Of the template; repeatable.",
            show_default=False,
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="For the script; repeatable.",
            show_default=False,
            rich_help_panel=GENERAL,
        ),
    ] = None

    def way(self) -> Way:
        """With the template, if one is named, read."""
        ready = None if self.template is None else named_template(self.template)
        return Way(self.command, self.image, ready, self.parameter or ())
