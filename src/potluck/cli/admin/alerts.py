"""`potluck admin alerts`: alerts of the pool, silences and destinations."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.admin.change import find_node
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.prompt import confirm
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.alert import AlertName, AlertState
from potluck.model.error import Conflict, InvalidInput
from potluck.model.units import parse_seconds, show_ahead, show_seconds, show_since
from potluck.wire.alerts import (
    LONGEST_SILENCE_SECONDS,
    AlertTestResult,
    AlertView,
    NewSilence,
    SilenceView,
)

_TONES = {
    AlertState.PENDING: Tone.FAINT,
    AlertState.FIRING: Tone.BAD,
    AlertState.RESOLVED: Tone.PLAIN,
}


def list_alerts(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many alerts.")] = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show firing and recent alerts, and silences."""
    screen = Screen(json)
    with connect(server) as potluck:
        page = potluck.admin.alerts(limit=limit)
    if json:
        screen.emit(page)
        return
    if page.alerts:
        columns = [
            *(TableColumn("STATE"), TableColumn("ALERT"), TableColumn("SINCE")),
            TableColumn("DETAIL", shrinks=True),
        ]
        show_table(screen.out, columns, [_alert_row(alert) for alert in _ordered(page.alerts)])
    else:
        screen.err.line("There are no alerts.")
    if page.silences:
        columns = [
            *(TableColumn("SILENCE"), TableColumn("ALERT"), TableColumn("SUBJECT")),
            *(TableColumn("ENDS IN"), TableColumn("COMMENT", shrinks=True)),
        ]
        rows = [_silence_row(silence) for silence in page.silences]
        show_table(screen.out, *drop_empty_columns(columns, rows))


def test_alerts(server: ServerOption = None, json: JsonOption = False) -> None:
    """Send a test message to each destination, and show which arrived."""
    screen = Screen(json)
    with connect(server) as potluck:
        results = potluck.admin.test_alerts().results
    if json:
        screen.emit({"results": results})
    else:
        for result in results:
            screen.out.line(*_result_line(result))
    if not results:
        raise Conflict(
            "The server has no destinations for alerts.",
            "Set POTLUCK_ALERT_URLS for the server, and restart it.",
        )
    if not all(result.has_arrived for result in results):
        raise Conflict(
            "Not every destination accepted the message.",
            "Correct POTLUCK_ALERT_URLS for the server, restart it, and try again.",
        )


def silence(
    name: Annotated[
        AlertName | None, typer.Argument(metavar="NAME", help="The alert; default: every alert.")
    ] = None,
    lasting: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long, such as 2h or 3d.")
    ] = "2h",
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Only alerts of this node and its devices.")
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(metavar="SUBJECT", help="Only alerts of this device, instance or account."),
    ] = None,
    comment: Annotated[str, typer.Option(help="Why, for other admins.")] = "",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Do not ask for confirmation before silencing all alerts."
        ),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Send no messages about an alert for a while, for one node or for all."""
    if node is not None and subject is not None:
        raise InvalidInput("--node and --subject exclude each other.", "Choose one of them.")
    screen, seconds = Screen(json), parse_seconds(lasting, "--for")
    if seconds > LONGEST_SILENCE_SECONDS:
        longest = show_seconds(LONGEST_SILENCE_SECONDS)
        raise InvalidInput(f"--for {printable(lasting)} is longer than {longest}.", "Shorten it.")
    is_everything = name is None and node is None and subject is None
    question = f"No alerts will be sent for {show_seconds(seconds)}. Continue?"
    if is_everything and not yes and not confirm(question, "--yes"):
        raise typer.Abort
    with connect(server) as potluck:
        about = subject if node is None else find_node(potluck, node)
        made = potluck.admin.silence_alerts(NewSilence(name, about, seconds, comment))
    if json:
        screen.emit(made)
        return
    what = "All alerts" if made.name is None else str(made.name)
    where = "" if made.subject is None else f" of {made.subject}"
    screen.out.line(f"{what}{where}: no messages for {show_seconds(seconds)} ({made.id}).")


def unsilence(
    silence_id: Annotated[str, typer.Argument(metavar="SILENCE", help="The silence's id.")],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """End a silence."""
    screen = Screen(json)
    with connect(server) as potluck:
        potluck.admin.end_silence(silence_id)
    if json:
        screen.emit({"silence_id": silence_id, "ended": True})
    else:
        screen.out.line("Messages are sent again.")


def _ordered(alerts: list[AlertView]) -> list[AlertView]:
    """Firing ones first."""
    order = (AlertState.FIRING, AlertState.PENDING, AlertState.RESOLVED)
    return sorted(alerts, key=lambda alert: order.index(alert.state))


def _alert_row(alert: AlertView) -> list[Cell]:
    is_silenced = alert.is_silenced and alert.state is not AlertState.RESOLVED
    moment = alert.resolved_at or alert.fired_at or alert.began_at
    return [
        Cell("silenced") if is_silenced else Cell(alert.state, _TONES[alert.state]),
        *(Cell(alert.name), Cell(show_since(moment, datetime.now(UTC))), Cell(alert.detail)),
    ]


def _silence_row(silence: SilenceView) -> list[Cell]:
    name, subject = silence.name or "all", silence.subject or "all"
    ends = show_ahead(silence.until, datetime.now(UTC))
    return [*map(Cell, (silence.id, name, subject, ends, silence.comment))]


def _result_line(result: AlertTestResult) -> tuple[str, Tone]:
    if result.has_arrived:
        seconds = show_seconds(result.seconds)
        return f"✓ Destination {result.destination}: accepted after {seconds}.", Tone.GOOD
    return f"✗ Destination {result.destination}: {result.problem}.", Tone.BAD
