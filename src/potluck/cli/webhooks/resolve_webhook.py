"""Resolves a webhook by its id, the end of its id, or its name."""

from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.terminal.screen import printable
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import is_id

if TYPE_CHECKING:
    from potluck.consumer import Potluck

WebhookArgument = Annotated[
    str,
    typer.Argument(
        metavar="WEBHOOK", help="Its name, its id, or the end of the id.", show_default=False
    ),
]


def pick_webhook_id(potluck: "Potluck", text: str) -> str:
    if is_id(text, "webhook"):
        return text
    webhooks = potluck.webhooks.list()
    ids = [
        webhook.id
        for webhook in webhooks
        if text and (webhook.name == text or webhook.id.endswith(text))
    ]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise NotFound(
            f"None of your webhooks has the name or id {printable(text)!r}.",
            "`potluck webhooks` lists them.",
        )
    raise InvalidInput(
        f"{printable(text)!r} matches {len(ids)} of your webhooks: {', '.join(ids)}.",
        "Use one of these ids.",
    )


def check_new_name(potluck: "Potluck", name: str) -> None:
    if any(webhook.name == name for webhook in potluck.webhooks.list()):
        raise InvalidInput(
            f"You already have a webhook named {printable(name)}.",
            "Choose another name, or remove that one with `potluck webhooks remove`.",
        )
