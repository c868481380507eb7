"""`potluck webhooks` and `potluck webhooks show`."""

from datetime import UTC, datetime

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import (
    show_age,
    show_ahead,
    show_count,
    show_since,
)
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.model.webhook import PauseReason
from potluck.wire.webhooks import WebhookView

_WHY = {
    PauseReason.OWNER: "by you",
    PauseReason.GONE: "it wants nothing any more (410)",
    PauseReason.FAILING: "it took nothing for too long",
}


def list_webhooks(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show where I am told what happens, and how that goes."""
    screen = Screen(json)
    with connect(server) as potluck:
        found = potluck.webhooks.list()
    if json:
        screen.emit({"webhooks": found})
    elif found:
        columns = [
            *(
                TableColumn("ID"),
                TableColumn("NAME", shrinks=True),
                TableColumn("URL", shrinks=True),
            ),
            *(TableColumn("EVENTS", shrinks=True), TableColumn("STATE", shrinks=True)),
            TableColumn("WAITING", is_number=True),
        ]
        rows = [_row(each, screen.out.is_terminal) for each in found]
        show_table(screen.out, columns, rows)
    else:
        screen.err.line("You have no webhooks. Add one with `potluck webhooks add URL`.")


def show_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Show one of them."""
    screen = Screen(json)
    with connect(server) as potluck:
        found = potluck.webhooks.get(pick_webhook_id(potluck, webhook))
    if json:
        screen.emit(found)
    else:
        tell_webhook(screen.out, found)


def tell_webhook(pane: Pane, found: WebhookView) -> None:
    now = datetime.now(UTC)
    state, tone = _state(found, now)
    facts = [
        ("id", found.id, Tone.PLAIN),
        ("url", found.url, Tone.PLAIN),
        ("events", _wanted(found), Tone.PLAIN),
        ("state", state, tone),
        ("waiting", show_count(found.waiting, "delivery", "deliveries"), Tone.PLAIN),
        ("made", show_since(found.created_at, now), Tone.PLAIN),
    ]
    if found.old_secret_until is not None and found.old_secret_until > now:
        left = show_ahead(found.old_secret_until, now)
        facts.append(("secret", f"the old one also signs for {left}", Tone.PLAIN))
    pane.line(printable(found.name), Tone.STRONG)
    for name, text, shade in facts:
        pane.line(f"  {name:<8} {pane.paint(printable(text), shade)}")


def _row(found: WebhookView, is_short: bool) -> list[Cell]:
    state, tone = _state(found, datetime.now(UTC))
    return [
        Cell(short_id(found.id) if is_short else found.id, Tone.STRONG),
        Cell(found.name),
        Cell(found.url),
        Cell(_wanted(found)),
        Cell(state, tone),
        Cell(str(found.waiting)),
    ]


def _wanted(found: WebhookView) -> str:
    kinds = ", ".join(found.kinds) or "all"
    return kinds if found.task_id is None else f"{kinds} of {short_id(found.task_id)}"


def _state(found: WebhookView, now: datetime) -> tuple[str, Tone]:
    if found.pause is not None:
        why = f"paused {_WHY[found.pause.reason]}"
        return (f"{why}: {found.pause.detail}" if found.pause.detail else why), Tone.BAD
    if found.failing_since is None:
        return "well", Tone.GOOD
    soon = "now"
    if found.next_try_at is not None and found.next_try_at > now:
        soon = f"in {show_ahead(found.next_try_at, now)}"
    return f"failing for {show_age(found.failing_since, now)}, next try {soon}", Tone.WAITING
