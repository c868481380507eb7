"""Groups of options: what typer sees, and what the command is given."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from potluck.cli.request.grouped import grouped


@dataclass(frozen=True)
class Inner:
    size: Annotated[int, typer.Option("--size", "-s")] = 1


@dataclass(frozen=True)
class Outer:
    inner: Inner
    label: Annotated[list[str] | None, typer.Option()] = None


def test_a_command_gets_its_groups_and_typer_sees_each_option() -> None:
    given: list[object] = []

    @grouped
    def command(outer: Outer, word: str, loud: bool = False) -> None:
        """Say something."""
        given.extend((outer, word, loud))

    app = typer.Typer()
    app.command()(command)
    run = CliRunner().invoke(app, ["-s", "3", "--label", "a", "--label", "b", "--loud", "hello"])
    assert run.exit_code == 0, run.output
    assert given == [Outer(Inner(3), ["a", "b"]), "hello", True]
    assert "Say something." in CliRunner().invoke(app, ["--help"]).output


def test_what_is_not_said_is_the_default_of_its_group() -> None:
    given: list[object] = []

    @grouped
    def command(outer: Outer) -> None:
        given.append(outer)

    app = typer.Typer()
    app.command()(command)
    assert CliRunner().invoke(app, []).exit_code == 0
    assert given == [Outer(Inner())]
