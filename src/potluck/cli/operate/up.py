"""`potluck up`: the whole platform on this machine, with one command."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck import __version__
from potluck.cli.options import DataDirOption, JsonOption
from potluck.cli.terminal.screen import Screen, Tone
from potluck.wire.routes import DEFAULT_PORT

if TYPE_CHECKING:
    from potluck.cli.operate.operator import Operator

HOST = "127.0.0.1"


def up(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="0 takes any free one.")
    ] = DEFAULT_PORT,
    data_dir: DataDirOption = None,
    no_provider: Annotated[
        bool, typer.Option("--no-provider", help="Only the server; offer no devices.")
    ] = False,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option(
            "--unsafe-no-sandbox", help="Run your own tasks, and only those, without a sandbox."
        ),
    ] = False,
    name: Annotated[str | None, typer.Option(help="What to call this machine.")] = None,
    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The package index for tasks.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Your PostgreSQL instead of the built-in one.")
    ] = None,
    redis_url: Annotated[str | None, typer.Option(metavar="URL", help="Your Redis.")] = None,
    json: JsonOption = False,
) -> None:
    """Start a server and a provider here, until Ctrl-C."""
    from potluck.cli.operate.platform import Platform, PlatformPlan
    from potluck.cli.operate.platform_directory import check_port, claimed
    from potluck.local.optional_dependency import check_server_part

    screen = Screen(json)
    check_server_part()
    # Only Linux has bubblewrap. Elsewhere the owner's own tasks run without it.
    is_open = unsafe_no_sandbox or sys.platform != "linux"
    offer = _given({"--name": name, "--index-url": index_url})
    offer += ("--unsafe-no-sandbox",) if is_open else ()
    with claimed(data_dir) as directory:
        check_port(HOST, port)
        _greet(screen, directory, is_open and not no_provider)
        operator = _operator(screen)
        own = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url}
        variables = {name: value for name, value in own.items() if value is not None}
        serve = ("--host", HOST, "--port", str(port))
        plan = PlatformPlan(directory, operator, serve, variables, None if no_provider else offer)
        Platform(plan, screen).run()


def _operator(screen: Screen) -> "Operator":
    """The wallet that this platform is run by; whoever got one made is told."""
    from potluck.cli.operate.operator import find_operator
    from potluck.consumer.identity.wallet import keystore_path

    operator, is_new = find_operator()
    if is_new and not screen.json:
        screen.err.line(f"Made the wallet {operator.address}, in {keystore_path()}.")
        screen.err.line("It runs this pool: keep a copy of that directory.", Tone.FAINT)
        screen.err.line()
    return operator


def _given(options: dict[str, str | None]) -> tuple[str, ...]:
    """Those options that have a value, as a command line."""
    pairs = [(option, value) for option, value in options.items() if value is not None]
    return tuple(text for pair in pairs for text in pair)


def _greet(screen: Screen, directory: Path, is_open: bool) -> None:
    if screen.json:
        return
    pane = screen.err
    pane.line(f"{pane.paint(f'Potluck {__version__}', Tone.STRONG)} in {directory}")
    if is_open:
        pane.line(
            "There is no sandbox: tasks run with your own rights, so only your own are taken.",
            Tone.WAITING,
        )
    pane.line()
