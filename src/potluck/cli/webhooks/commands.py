"""`potluck webhooks test`, `pause`, `resume` and `remove`."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.units import show_seconds
from potluck.cli.webhooks.list import tell_webhook
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.wire.webhooks import WebhookTried

_SHOWN_LINES = 10


def test_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Send an event that says nothing, now, and show what came back. Status 1 if it did not
    arrive.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        tried = potluck.webhooks.test(pick_webhook_id(potluck, webhook))
    if json:
        screen.emit(tried)
    else:
        _tell(screen, tried)
    if not tried.delivered:
        raise typer.Exit(1)


def pause_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Send nothing there until it is resumed; what happens meanwhile waits."""
    screen = Screen(json)
    with connect(server) as potluck:
        found = potluck.webhooks.pause(pick_webhook_id(potluck, webhook))
    if json:
        screen.emit(found)
    else:
        tell_webhook(screen.out, found)


def resume_webhook(
    webhook: WebhookArgument,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out what happened meanwhile, and what waits.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Go on where it was."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        found = potluck.webhooks.resume(webhook_id, skip_missed=skip)
    if json:
        screen.emit(found)
    else:
        tell_webhook(screen.out, found)


def remove_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Send nothing there any more, and forget it."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        potluck.webhooks.remove(webhook_id)
    if json:
        screen.emit({"removed": webhook_id})
    else:
        screen.out.line(f"Removed {webhook_id}.")


def _tell(screen: Screen, tried: WebhookTried) -> None:
    seconds = show_seconds(tried.seconds)
    if tried.delivered:
        screen.out.line(f"✓ It answered {tried.status} after {seconds}.", Tone.GOOD)
    else:
        screen.out.line(f"✗ {printable(tried.detail)} ({seconds})", Tone.BAD)
    for line in tried.answer.splitlines()[:_SHOWN_LINES]:
        screen.err.line(f"  {printable(line)[:200]}", Tone.FAINT)
