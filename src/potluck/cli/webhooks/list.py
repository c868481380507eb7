"""`potluck webhooks` and `potluck webhooks show`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_list, show_table
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.model.units import show_age, show_ahead, show_count, show_since
from potluck.model.webhook import PauseReason
from potluck.wire.webhooks import WebhookView

_PAUSE_TEXTS = {
    PauseReason.OWNER: "by you",
    PauseReason.GONE: "because the receiver is gone (410)",
    PauseReason.FAILING: "after failing for too long",
}


def list_webhooks(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show my webhooks and their state."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhooks = potluck.webhooks.list()
    show_list(
        screen,
        "webhooks",
        webhooks,
        _show,
        "You have no webhooks. Add one with `potluck webhooks add URL`.",
    )


def _show(pane: Pane, webhooks: Sequence[WebhookView]) -> None:
    columns = [
        TableColumn("ID"),
        TableColumn("NAME", shrinks=True),
        TableColumn("URL", shrinks=True),
        TableColumn("EVENTS", shrinks=True),
        TableColumn("STATE", shrinks=True),
        TableColumn("WAITING", is_number=True),
    ]
    rows = [_row(webhook, pane.is_terminal) for webhook in webhooks]
    show_table(pane, columns, rows)


def show_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Show one webhook."""
    screen = Screen(json)
    with connect(server) as potluck:
        details = potluck.webhooks.get(pick_webhook_id(potluck, webhook))
    if json:
        screen.emit(details)
    else:
        show_details(screen.out, details)


def show_details(pane: Pane, webhook: WebhookView) -> None:
    now = datetime.now(UTC)
    state, tone = _state_text(webhook, now)
    facts = [
        ("id", webhook.id, Tone.PLAIN),
        ("url", webhook.url, Tone.PLAIN),
        ("events", _events_text(webhook), Tone.PLAIN),
        ("state", state, tone),
        ("waiting", show_count(webhook.waiting, "delivery", "deliveries"), Tone.PLAIN),
        ("made", show_since(webhook.created_at, now), Tone.PLAIN),
    ]
    if webhook.old_secret_until is not None and webhook.old_secret_until > now:
        left = show_ahead(webhook.old_secret_until, now)
        facts.append(("secret", f"the old one is also valid for {left}", Tone.PLAIN))
    pane.line(printable(webhook.name), Tone.STRONG)
    for name, text, shade in facts:
        pane.line(f"  {name:<8} {pane.paint(printable(text), shade)}")


def _row(webhook: WebhookView, is_short: bool) -> list[Cell]:
    state, tone = _state_text(webhook, datetime.now(UTC))
    return [
        Cell(short_id(webhook.id) if is_short else webhook.id, Tone.STRONG),
        Cell(webhook.name),
        Cell(webhook.url),
        Cell(_events_text(webhook)),
        Cell(state, tone),
        Cell(str(webhook.waiting)),
    ]


def _events_text(webhook: WebhookView) -> str:
    kinds = ", ".join(webhook.kinds) or "all"
    return kinds if webhook.task_id is None else f"{kinds} of {short_id(webhook.task_id)}"


def _state_text(webhook: WebhookView, now: datetime) -> tuple[str, Tone]:
    if webhook.pause is not None:
        why = f"paused {_PAUSE_TEXTS[webhook.pause.reason]}"
        return (f"{why}: {webhook.pause.detail}" if webhook.pause.detail else why), Tone.BAD
    if webhook.failing_since is None:
        return "ok", Tone.GOOD
    soon = "now"
    if webhook.next_try_at is not None and webhook.next_try_at > now:
        soon = f"in {show_ahead(webhook.next_try_at, now)}"
    return f"failing for {show_age(webhook.failing_since, now)}, next try {soon}", Tone.WAITING
