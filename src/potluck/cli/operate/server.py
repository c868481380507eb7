"""`potluck server`: the central server in the foreground."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck import __version__
from potluck.cli.options import DataDirOption, JsonOption, expand_option_groups
from potluck.cli.terminal.screen import Screen
from potluck.local.optional_dependency import server_part_missing

if TYPE_CHECKING:
    from potluck.server.assemble import RunningServer


@dataclass(frozen=True)
class ServerOptions:
    """Settings by name; None falls back to the environment and the defaults."""

    host: Annotated[str | None, typer.Option(help="Address to serve on.")] = None
    port: Annotated[int | None, typer.Option(help="Port to serve on; 0 takes any.")] = None
    public_url: Annotated[
        str | None, typer.Option(help="The URL that users connect to, if it differs.")
    ] = None
    operator: Annotated[
        str | None, typer.Option(help="Wallet address of the pool's first admin.")
    ] = None
    registration: Annotated[
        str | None,
        typer.Option(help="Who gets an account: open, invite or closed.", show_default="by host"),
    ] = None
    tls: Annotated[
        str | None,
        typer.Option(help="`auto` makes a certificate, and prints its fingerprint for clients."),
    ] = None
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Your certificate, as PEM.")
    ] = None
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key, as PEM.")] = None
    behind_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="CIDR", help="Accept only proxies in this network, without TLS."),
    ] = None
    data_directory: DataDirOption = None
    database_url: Annotated[
        str | None, typer.Option(help="Your PostgreSQL (15 or later).", show_default="embedded")
    ] = None
    encryption_key_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The file with the encryption keys.",
            show_default="in the data directory",
        ),
    ] = None
    encryption_key_command: Annotated[
        str | None, typer.Option(help="A command that prints the encryption keys.")
    ] = None
    redis_url: Annotated[
        str | None, typer.Option(help="Redis or Valkey, for several server instances.")
    ] = None


@expand_option_groups
def server(options: ServerOptions, json: JsonOption = False) -> None:
    """Run the server, with its own PostgreSQL unless you name one."""
    _serve(asdict(options), Screen(json), json)


def _serve(options: Mapping[str, Any], screen: Screen, json: bool) -> None:
    from potluck.local.error_tally import ErrorTally
    from potluck.local.log import ErrorObserver, configure_logs
    from potluck.local.sentry import open_sentry
    from potluck.local.tracing import start_tracing, stop_tracing

    try:
        import uvloop

        from potluck.server.assemble import serve
        from potluck.server.settings import read_settings
    except ImportError as error:
        raise server_part_missing(error.name) from error
    settings = read_settings(options)
    errors = ErrorTally()
    observers: list[ErrorObserver] = [errors.note]
    if settings.sentry_dsn is not None:
        observers.append(open_sentry(settings.sentry_dsn, "POTLUCK_SENTRY_DSN", __version__))
    configure_logs(settings.log_level, settings.log_style, observers)

    def on_ready(running: "RunningServer") -> None:
        if json:
            screen.emit(_ready_event(running, settings.data_directory))
        else:
            screen.out.line("\n".join(_ready_lines(running)))

    def on_waiting(service: str, detail: str) -> None:
        if json:
            screen.emit({"event": "waiting", "service": service, "detail": detail})

    start_tracing("server")
    try:
        uvloop.run(serve(settings, on_ready, on_waiting, errors))
    finally:
        stop_tracing()
    if json:
        screen.emit({"event": "stopped"})


def _ready_event(running: "RunningServer", data_directory: Path) -> dict[str, Any]:
    return {
        "event": "ready",
        "url": running.url,
        "ca_fingerprint": running.fingerprint,
        "join": _join_line(running),
        "data_directory": str(data_directory),
        "admin_invite": str(running.admin_invite) if running.admin_invite else None,
    }


def _ready_lines(running: "RunningServer") -> list[str]:
    lines = [f"Potluck runs at {running.url}. Ctrl-C stops it."]
    pin = "" if running.fingerprint is None else f" --ca-fingerprint {running.fingerprint}"
    join = _join_line(running)
    if join is not None:
        lines += ["Install Potluck elsewhere, verified by its hash:", f"  {join}"]
    lines += ["Run a task, or sign in:"]
    lines += [f"  potluck run --server {running.url}{pin} --template hello"]
    lines += [f"  potluck login {running.url}{pin}"]
    lines += ["Add a machine:", f"  potluck provide {running.url}{pin}"]
    if running.admin_invite is not None:
        lines.append(f"There is no admin yet; the invite is in {running.admin_invite}.")
    return lines


def _join_line(running: "RunningServer") -> str | None:
    from potluck.wire.package import installers

    if running.package is None:
        return None
    return installers(running.url, running.package, running.fingerprint is not None).pip
