"""`potluck webhooks change`."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.cli.webhooks.list import show_details
from potluck.cli.webhooks.resolve_webhook import WebhookArgument, pick_webhook_id
from potluck.cli.webhooks.secrets import KindOption
from potluck.model.error import InvalidInput


def change_webhook(
    webhook: WebhookArgument,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The new address.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The new name.")
    ] = None,
    kind: KindOption = None,
    every_kind: Annotated[
        bool, typer.Option("--every-kind", help="Send all kinds of events.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Change the address, the name or the kinds of events."""
    if not (url or name or kind or every_kind) or (kind and every_kind):
        raise InvalidInput(
            "There is nothing to change, or --kind and --every-kind are both given.",
            "Give --url, --name, and --kind or --every-kind.",
        )
    screen = Screen(json)
    with connect(server) as potluck:
        webhook_id = pick_webhook_id(potluck, webhook)
        kinds = () if every_kind else kind
        changed = potluck.webhooks.change(webhook_id, url=url, name=name, kinds=kinds)
    if json:
        screen.emit(changed)
    else:
        show_details(screen.out, changed)
