"""Which webhook somebody means: an id, an end of one, or its name."""

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
        metavar="WEBHOOK", help="Its name, its id, or an end of that.", show_default=False
    ),
]


def pick_webhook_id(potluck: "Potluck", text: str) -> str:
    if is_id(text, "webhook"):
        return text
    known = potluck.webhooks.list()
    found = [each.id for each in known if text and (each.name == text or each.id.endswith(text))]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"None of your webhooks is called {printable(text)!r}, and no id ends so.",
            "`potluck webhooks` lists them.",
        )
    raise InvalidInput(
        f"{printable(text)!r} fits {len(found)} of your webhooks: {', '.join(found)}.",
        "Type one of these ids.",
    )


def check_new_name(potluck: "Potluck", name: str) -> None:
    """Two of one name could not be told apart by it."""
    if any(each.name == name for each in potluck.webhooks.list()):
        raise InvalidInput(
            f"You have a webhook that is called {printable(name)} already.",
            "Choose another name, or remove that one with `potluck webhooks remove`.",
        )
