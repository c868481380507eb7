"""Groups of options: what typer sees, and what the command is given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer
from typer.testing import CliRunner

from potluck.cli.options import expand_option_groups
from potluck.local.task_options import GENERAL

Size = Annotated[int, typer.Option("--size", "-s")]


@dataclass(frozen=True)
class Inner:
    size: Size = 1


@dataclass(frozen=True)
class Outer:
    inner: Inner
    label: Annotated[list[str] | None, typer.Option()] = None


def test_a_command_gets_its_groups_and_typer_sees_each_option() -> None:
    received: list[object] = []

    @expand_option_groups
    def command(outer: Outer, word: str, loud: bool = False) -> None:
        """Say something."""
        received.extend((outer, word, loud))

    app = typer.Typer()
    app.command()(command)
    run = CliRunner().invoke(app, ["-s", "3", "--label", "a", "--label", "b", "--loud", "hello"])
    assert run.exit_code == 0, run.output
    assert received == [Outer(Inner(3), ["a", "b"]), "hello", True]
    assert "Say something." in CliRunner().invoke(app, ["--help"]).output


def test_omitted_options_take_the_default_of_their_group() -> None:
    received: list[object] = []

    @expand_option_groups
    def command(outer: Outer) -> None:
        received.append(outer)

    app = typer.Typer()
    app.command()(command)
    assert CliRunner().invoke(app, []).exit_code == 0
    assert received == [Outer(Inner())]


@dataclass(frozen=True)
class Shown:
    panel: ClassVar = "A panel of its own"

    size: Size = 1
    colour: Annotated[str, typer.Option(rich_help_panel=GENERAL)] = "red"


def test_the_help_shows_a_group_in_its_panel_and_a_shared_option_elsewhere_as_it_was() -> None:
    @expand_option_groups
    def one(parameters: Shown) -> None: ...

    @expand_option_groups
    def other(size: Size = 1) -> None: ...

    assert _panels(one) == {"size": "A panel of its own", "colour": GENERAL}
    assert _panels(other) == {"size": None}


def _panels(command: Callable[..., None]) -> dict[str, str | None]:
    app = typer.Typer()
    app.command()(command)
    options = typer.main.get_command(app).params
    return {
        str(option.name): getattr(option, "rich_help_panel", None)
        for option in options
        if option.name in Shown.__annotations__
    }
