"""`potluck webhooks add` and `rotate`: what shows a secret, this once."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import pick_task_id
from potluck.cli.terminal.screen import Screen
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, check_new_name, pick_webhook_id
from potluck.model.event import EventKind
from potluck.wire.webhooks import WebhookMade

KindOption = Annotated[
    list[EventKind] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help=f"Only these events, of: {', '.join(EventKind)}. Repeat it.",
        show_default="all",
    ),
]


def add_webhook(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Where, with https://.", show_default=False)
    ],
    kind: KindOption = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What you call it.", show_default="its host"),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TASK", help="Only what is about this task.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Have events sent to an address, and show the secret that signs them, this once."""
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = None if task is None else pick_task_id(potluck, task)
        if name is not None:
            check_new_name(potluck, name)
        made = potluck.webhooks.add(url, kinds=kind or (), name=name, task_id=task_id)
    _show(screen, made, f"Made {made.webhook.id}. What happens from now on goes there, signed with")
    if not json:
        screen.err.line(f"Try it: potluck webhooks test {made.webhook.id}")


def rotate_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Make a new secret and show it; the old one signs as well for a day."""
    screen = Screen(json)
    with connect(server) as potluck:
        made = potluck.webhooks.rotate(pick_webhook_id(potluck, webhook))
    _show(screen, made, f"{made.webhook.id} is signed with both secrets for a while. The new one:")


def _show(screen: Screen, made: WebhookMade, sentence: str) -> None:
    if screen.json:
        screen.emit(made)
        return
    screen.err.line(sentence)
    screen.out.line(made.secret)
    screen.err.line("It is shown this once. The receiver checks each event with it:")
    screen.err.line("  event = potluck.webhook.verify(secret, headers, body)")
