"""`potluck webhooks add` and `rotate`: the commands that show a secret, once."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import resolve_task_id
from potluck.cli.terminal.screen import Screen
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, check_new_name, pick_webhook_id
from potluck.model.event import EventKind
from potluck.wire.webhooks import WebhookMade

KindOption = Annotated[
    list[EventKind] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help=f"Only these events: {', '.join(EventKind)}. Repeatable.",
        show_default="all",
    ),
]


def add_webhook(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="The https:// address of the receiver.", show_default=False
        ),
    ],
    kind: KindOption = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Its name.", show_default="its host"),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="Only events of this task.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Send events to an address, and show the secret that signs them, once."""
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = None if task is None else resolve_task_id(potluck, task)
        if name is not None:
            check_new_name(potluck, name)
        added = potluck.webhooks.add(url, kinds=kind or (), name=name, task_id=task_id)
    _show(screen, added, f"Made {added.webhook.id}. Its events are signed with this secret:")
    if not json:
        screen.err.line(f"Try it: potluck webhooks test {added.webhook.id}")


def rotate_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Make a new secret and show it; the old one remains valid for a day."""
    screen = Screen(json)
    with connect(server) as potluck:
        rotated = potluck.webhooks.rotate(pick_webhook_id(potluck, webhook))
    _show(
        screen, rotated, f"{rotated.webhook.id} is signed with both secrets for a day. The new one:"
    )


def _show(screen: Screen, webhook: WebhookMade, sentence: str) -> None:
    if screen.json:
        screen.emit(webhook)
        return
    screen.err.line(sentence)
    screen.out.line(webhook.secret)
    screen.err.line("It is shown only once. The receiver verifies each event with it:")
    screen.err.line("  event = potluck.webhook.verify(secret, headers, body)")
