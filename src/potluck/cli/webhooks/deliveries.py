"""`potluck webhooks deliveries` and `redeliver`."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import show_ahead, show_seconds, show_since
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.model.webhook import DeliveryState
from potluck.wire.webhooks import DeliveryView

_TONES = {
    DeliveryState.PENDING: Tone.WAITING,
    DeliveryState.DELIVERED: Tone.GOOD,
    DeliveryState.GIVEN_UP: Tone.BAD,
}
_PAUSED = "It waits until the webhook is resumed."


def list_deliveries(
    webhook: WebhookArgument,
    limit: Annotated[int, typer.Option(min=1, max=500, help="So many of the newest.")] = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what was sent there or waits, newest first, and what came of it."""
    screen = Screen(json)
    with connect(server) as potluck:
        page = potluck.webhooks.deliveries(pick_webhook_id(potluck, webhook), limit)
    if json:
        screen.emit(page)
    elif page.deliveries:
        columns = [
            *(
                TableColumn("DELIVERY"),
                TableColumn("EVENT"),
                TableColumn("KIND"),
                TableColumn("STATE"),
            ),
            *(TableColumn("TRIES", is_number=True), TableColumn("LAST TRY", is_number=True)),
            *(
                TableColumn("TOOK", is_number=True),
                TableColumn("WHAT CAME OF IT", shrinks=True, wraps=True),
            ),
        ]
        is_short = screen.out.is_terminal
        show_table(screen.out, columns, [_row(each, is_short) for each in page.deliveries])
    else:
        screen.err.line("Nothing was sent there yet.")


def redeliver(
    webhook: WebhookArgument,
    delivery: Annotated[
        str, typer.Argument(metavar="DELIVERY", help="Its id, or an end of it.", show_default=False)
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Send one of them once more, with the same event id."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        known = potluck.webhooks.deliveries(webhook_id, 500).deliveries
        found = [each.id for each in known if delivery and each.id.endswith(delivery)]
        made = potluck.webhooks.redeliver(webhook_id, found[0] if len(found) == 1 else delivery)
    if json:
        screen.emit(made)
    else:
        is_sent = made.next_try_at is not None
        screen.out.line(f"It is on its way again, as {made.id}." if is_sent else _PAUSED)


def _row(each: DeliveryView, is_short: bool) -> list[Cell]:
    now = datetime.now(UTC)
    last = each.newest_tries[0] if each.newest_tries else None
    said = [] if last is None else [last.detail or f"It answered {last.status}."]
    if each.next_try_at is not None:
        is_later = each.next_try_at > now
        soon = f"Next try in {show_ahead(each.next_try_at, now)}."
        said.append(soon if is_later else "It waits for its turn.")
    elif each.state is DeliveryState.PENDING:
        said.append(_PAUSED)
    return [
        Cell(short_id(each.id) if is_short else each.id, Tone.STRONG),
        Cell(short_id(each.event_id) if is_short else each.event_id),
        Cell(each.kind),
        Cell(each.state, _TONES[each.state]),
        Cell(str(each.tries)),
        Cell("" if last is None else show_since(last.at, now)),
        Cell("" if last is None else show_seconds(last.seconds)),
        Cell(" ".join(said), Tone.FAINT),
    ]
