"""`potluck webhooks deliveries` and `redeliver`."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.model.units import show_ahead, show_seconds, show_since
from potluck.model.webhook import DeliveryState
from potluck.wire.webhooks import DeliveryView

_TONES = {
    DeliveryState.PENDING: Tone.WAITING,
    DeliveryState.DELIVERED: Tone.GOOD,
    DeliveryState.GIVEN_UP: Tone.BAD,
}
_PAUSED = "Waiting until the webhook is resumed."


def list_deliveries(
    webhook: WebhookArgument,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many of the newest.")] = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show sent and waiting events, newest first, with their results."""
    screen = Screen(json)
    with connect(server) as potluck:
        page = potluck.webhooks.deliveries(pick_webhook_id(potluck, webhook), limit)
    if json:
        screen.emit(page)
    elif page.deliveries:
        columns = [
            TableColumn("DELIVERY"),
            TableColumn("EVENT"),
            TableColumn("KIND"),
            TableColumn("STATE"),
            TableColumn("TRIES", is_number=True),
            TableColumn("LAST TRY", is_number=True),
            TableColumn("TOOK", is_number=True),
            TableColumn("RESULT", shrinks=True, wraps=True),
        ]
        is_short = screen.out.is_terminal
        show_table(screen.out, columns, [_row(delivery, is_short) for delivery in page.deliveries])
    else:
        screen.err.line("No events have been sent yet.")


def redeliver(
    webhook: WebhookArgument,
    delivery: Annotated[
        str,
        typer.Argument(
            metavar="DELIVERY", help="Its id, or the end of the id.", show_default=False
        ),
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Send an event again, with the same event id."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        deliveries = potluck.webhooks.deliveries(webhook_id, 500).deliveries
        matches = [
            candidate.id for candidate in deliveries if delivery and candidate.id.endswith(delivery)
        ]
        repeated = potluck.webhooks.redeliver(
            webhook_id, matches[0] if len(matches) == 1 else delivery
        )
    if json:
        screen.emit(repeated)
    else:
        is_sent = repeated.next_try_at is not None
        screen.out.line(f"Sending it again, as {repeated.id}." if is_sent else _PAUSED)


def _row(delivery: DeliveryView, is_short: bool) -> list[Cell]:
    now = datetime.now(UTC)
    last = delivery.newest_tries[0] if delivery.newest_tries else None
    results = [] if last is None else [last.detail or f"Response {last.status}."]
    if delivery.next_try_at is not None:
        is_later = delivery.next_try_at > now
        soon = f"Next try in {show_ahead(delivery.next_try_at, now)}."
        results.append(soon if is_later else "Queued.")
    elif delivery.state is DeliveryState.PENDING:
        results.append(_PAUSED)
    return [
        Cell(short_id(delivery.id) if is_short else delivery.id, Tone.STRONG),
        Cell(short_id(delivery.event_id) if is_short else delivery.event_id),
        Cell(delivery.kind),
        Cell(delivery.state, _TONES[delivery.state]),
        Cell(str(delivery.tries)),
        Cell("" if last is None else show_since(last.at, now)),
        Cell("" if last is None else show_seconds(last.seconds)),
        Cell(" ".join(results), Tone.FAINT),
    ]
