"""`potluck admin`: what only the operator of the server may do."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.screen import Screen
from potluck.cli.units import parse_credits, show_credits


def grant(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT_ID", show_default=False)],
    amount: Annotated[
        str, typer.Argument(metavar="CREDITS", help="Such as 25 or 0.5.", show_default=False)
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Give an account credits."""
    screen = Screen(json)
    amount_micro = parse_credits(amount, "CREDITS")
    with connect(server) as potluck:
        potluck.grant(account, amount_micro)
    if json:
        screen.emit({"account_id": account, "amount_micro": amount_micro})
    else:
        screen.out.line(f"Gave {show_credits(amount_micro)} credits to {account}.")
