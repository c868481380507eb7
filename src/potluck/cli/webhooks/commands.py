"""`potluck webhooks test`, `pause`, `resume` and `remove`."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.webhooks.list import show_details
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.model.units import show_seconds
from potluck.wire.webhooks import WebhookTried

_SHOWN_LINES = 10


def test_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Send a test event now and show the response.

    The exit status is 1 if it did not arrive.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        result = potluck.webhooks.test(pick_webhook_id(potluck, webhook))
    if json:
        screen.emit(result)
    else:
        _show_test(screen, result)
    if not result.delivered:
        raise typer.Exit(1)


def pause_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Stop sending until it is resumed; events wait meanwhile."""
    screen = Screen(json)
    with connect(server) as potluck:
        paused = potluck.webhooks.pause(pick_webhook_id(potluck, webhook))
    if json:
        screen.emit(paused)
    else:
        show_details(screen.out, paused)


def resume_webhook(
    webhook: WebhookArgument,
    skip: Annotated[bool, typer.Option("--skip", help="Drop the events that wait.")] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Send events again, starting with those that wait."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        resumed = potluck.webhooks.resume(webhook_id, skip_missed=skip)
    if json:
        screen.emit(resumed)
    else:
        show_details(screen.out, resumed)


def remove_webhook(
    webhook: WebhookArgument, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Delete a webhook."""
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        potluck.webhooks.remove(webhook_id)
    if json:
        screen.emit({"removed": webhook_id})
    else:
        screen.out.line(f"Removed {webhook_id}.")


def _show_test(screen: Screen, result: WebhookTried) -> None:
    seconds = show_seconds(result.seconds)
    if result.delivered:
        screen.out.line(f"✓ Response {result.status} after {seconds}.", Tone.GOOD)
    else:
        screen.out.line(f"✗ {printable(result.detail)} ({seconds})", Tone.BAD)
    for line in result.answer.splitlines()[:_SHOWN_LINES]:
        screen.err.line(f"  {printable(line)[:200]}", Tone.FAINT)
