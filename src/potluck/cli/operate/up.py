"""`potluck up`: the complete platform on this machine, with one command."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck import __version__
from potluck.cli.options import DataDirOption, JsonOption
from potluck.cli.terminal.screen import Screen, Tone
from potluck.local.data_directory import data_directory, held, resolve_directory
from potluck.model.error import BadSettings, DataDirectoryInUse, PortTaken
from potluck.wire.routes import DEFAULT_PORT

if TYPE_CHECKING:
    from potluck.cli.operate.operator import Operator

HOST = "127.0.0.1"


def up(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The server's port; 0 takes any free one.")
    ] = DEFAULT_PORT,
    data_dir: DataDirOption = None,
    no_provider: Annotated[
        bool, typer.Option("--no-provider", help="Start only the server.")
    ] = False,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option(
            "--unsafe-no-sandbox", help="Take only your own tasks, and run them without a sandbox."
        ),
    ] = False,
    name: Annotated[str | None, typer.Option(help="This machine's name in the pool.")] = None,
    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The package index for tasks' dependencies.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Your PostgreSQL instead of the built-in one.")
    ] = None,
    redis_url: Annotated[str | None, typer.Option(metavar="URL", help="Your Redis.")] = None,
    json: JsonOption = False,
) -> None:
    """Start a server and a provider here, until Ctrl-C."""
    from potluck.cli.operate.platform import Platform, PlatformPlan
    from potluck.local.optional_dependency import check_server_part

    screen = Screen(json)
    check_server_part()
    # Only Linux has bubblewrap. On other systems, the owner's tasks run without a sandbox.
    is_unsandboxed = unsafe_no_sandbox or sys.platform != "linux"
    provider_options = _command_line({"--name": name, "--index-url": index_url})
    provider_options += ("--unsafe-no-sandbox",) if is_unsandboxed else ()
    with _lock_directory(data_dir) as directory:
        _check_port(HOST, port)
        _show_header(screen, directory, is_unsandboxed and not no_provider)
        operator = _find_operator(screen)
        database = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url}
        variables = {name: value for name, value in database.items() if value is not None}
        server_options = ("--host", HOST, "--port", str(port))
        plan = PlatformPlan(
            directory,
            operator,
            server_options,
            variables,
            None if no_provider else provider_options,
        )
        Platform(plan, screen).run()


@contextmanager
def _lock_directory(name: str | None) -> Iterator[Path]:
    """Locks the named directory, or the default one, and yields it."""
    directory = data_directory() if name is None else resolve_directory(name)
    in_use = DataDirectoryInUse(
        f"Another `potluck up` is running on {directory}.",
        "Use that one, or give this one another --data-dir DIR and --port PORT.",
    )
    with held(directory, in_use, "up.lock"):
        (directory / "logs").mkdir(exist_ok=True, mode=0o700)
        yield directory


def _check_port(host: str, port: int) -> None:
    """Raises if the port is not available, before anything is started."""
    try:
        socket.create_server((host, port)).close()
    except PermissionError as error:
        raise BadSettings(
            f"You may not listen on port {port}.", "Choose one above 1023 with --port."
        ) from error
    except OSError as error:
        raise PortTaken(
            f"Port {port} is in use by another program.",
            f"Choose another with --port, such as --port {port + 1}; 0 takes any free one.",
        ) from error


def _find_operator(screen: Screen) -> "Operator":
    """The operator; prints the address and path of a new wallet."""
    from potluck.cli.operate.operator import find_operator
    from potluck.consumer.identity.wallet import keystore_path

    operator, is_new = find_operator()
    if is_new and not screen.json:
        screen.err.line(f"Made the wallet {operator.address}, in {keystore_path()}.")
        screen.err.line("It administers this pool: back up that directory.", Tone.FAINT)
        screen.err.line()
    return operator


def _command_line(options: dict[str, str | None]) -> tuple[str, ...]:
    """The options that have a value, as arguments."""
    pairs = [(option, value) for option, value in options.items() if value is not None]
    return tuple(text for pair in pairs for text in pair)


def _show_header(screen: Screen, directory: Path, is_unsandboxed: bool) -> None:
    if screen.json:
        return
    pane = screen.err
    pane.line(f"{pane.paint(f'Potluck {__version__}', Tone.STRONG)} in {directory}")
    if is_unsandboxed:
        pane.line(
            "No sandbox: tasks run with your permissions, so only your own are accepted.",
            Tone.WAITING,
        )
    pane.line()
