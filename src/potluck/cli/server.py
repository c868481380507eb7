"""`potluck server`: the central server in the foreground."""

from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import DataDirOption, JsonOption
from potluck.cli.screen import Screen
from potluck.model.error import StartFailed

if TYPE_CHECKING:
    from potluck.server.assemble import Running


def server(
    host: Annotated[str | None, typer.Option(help="Address to serve on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to serve on; 0 takes any.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="Where people reach it, if that is not where it listens.")
    ] = None,
    operator: Annotated[
        str | None, typer.Option(help="Wallet address of the pool's first admin.")
    ] = None,
    registration: Annotated[
        str | None,
        typer.Option(help="Who gets an account: open, invite or closed.", show_default="by host"),
    ] = None,
    data_dir: DataDirOption = None,
    database_url: Annotated[
        str | None,
        typer.Option(help="A PostgreSQL of your own (15 or later).", show_default="embedded"),
    ] = None,
    redis_url: Annotated[
        str | None, typer.Option(help="Redis or Valkey, for several instances.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run the central server, with its own PostgreSQL unless you name one."""
    from potluck.local.log import configure_logs

    try:
        import uvloop

        from potluck.server.assemble import serve
        from potluck.server.settings import read_settings
    except ImportError as error:
        raise StartFailed(
            f"The server's part of Potluck is not installed ({error.name} is missing).",
            "Install it with: pip install 'potluck[server]'",
        ) from error
    configure_logs()
    options = {
        "host": host,
        "port": port,
        "public_url": public_url,
        "operator": operator,
        "registration": registration,
        "data_directory": data_dir,
        "database_url": database_url,
        "redis_url": redis_url,
    }
    settings = read_settings(options)

    screen = Screen(json)

    def ready(running: "Running") -> None:
        if not json:
            screen.out.line(f"Potluck serves at {running.url}. Ctrl-C stops it.")
            if running.admin_invite is not None:
                screen.out.line(f"Nobody is an admin yet; the invite is in {running.admin_invite}.")
            return
        screen.emit(
            {
                "event": "ready",
                "url": running.url,
                "data_directory": str(settings.data_directory),
                "admin_invite": str(running.admin_invite) if running.admin_invite else None,
            }
        )

    uvloop.run(serve(settings, ready))
    if json:
        screen.emit({"event": "stopped"})
