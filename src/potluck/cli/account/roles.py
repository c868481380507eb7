"""`potluck roles`: what my account is in this pool."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.model.account import Role
from potluck.model.error import InvalidInput

_NONE = "none"
_OWN_CHOICE = (Role.CONSUMER, Role.PROVIDER)


def roles(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROLE",
            help="consumer, provider, both, or none; nothing shows what you are.",
            show_default=False,
        ),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show or choose what I am here: consumer, provider, both or none."""
    screen = Screen(json)
    with connect(server) as potluck:
        me = potluck.account.choose_roles(own_choice(chosen)) if chosen else potluck.account.me()
    if json:
        screen.emit({"address": me.address, "roles": me.roles})
    else:
        screen.out.line(", ".join(me.roles) or _NONE)


def own_choice(words: list[str]) -> list[Role]:
    """What an account may choose by itself; `none` stands alone."""
    if words == [_NONE]:
        return []
    unknown = [word for word in words if word not in _OWN_CHOICE]
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a role to choose.",
            "Choose consumer, provider, both or none; an admin is made by an admin.",
        )
    return [Role(word) for word in dict.fromkeys(words)]
