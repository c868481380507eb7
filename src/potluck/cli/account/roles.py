"""`potluck roles`: the roles of my account."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen
from potluck.model.account import Role
from potluck.model.error import InvalidInput

_NONE, _BOTH = "none", "both"
_OWN_CHOICE = (Role.CONSUMER, Role.PROVIDER)


def roles(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROLE",
            help="consumer, provider, both, or none; without any: show the roles.",
            show_default=False,
        ),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show or choose my roles: consumer, provider, both or none."""
    screen = Screen(json)
    with connect(server) as potluck:
        me = (
            potluck.account.choose_roles(parse_own_roles(chosen))
            if chosen
            else potluck.account.me()
        )
    if json:
        screen.emit({"address": me.address, "roles": me.roles})
    else:
        screen.out.line(", ".join(me.roles) or _NONE)


def parse_own_roles(words: list[str]) -> list[Role]:
    """The roles that an account may choose itself; `none` excludes the others."""
    if words == [_NONE]:
        return []
    if words == [_BOTH]:
        return [*_OWN_CHOICE]
    unknown = [word for word in words if word not in _OWN_CHOICE]
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is not a role that you can choose.",
            "Choose consumer, provider, both or none; only an admin can make an admin.",
        )
    return [Role(word) for word in dict.fromkeys(words)]
