"""`potluck admin accounts`, `roles`, `suspend`, `resume`, `grant`: who is here, and as what."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import show_age, show_credits
from potluck.model.account import Role
from potluck.model.error import InvalidInput, NotFound
from potluck.model.units import parse_credits
from potluck.wire.identity import AccountView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

AccountArgument = Annotated[
    str,
    typer.Argument(metavar="ACCOUNT", help="An account's id or its wallet.", show_default=False),
]


def accounts(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show everybody in the pool."""
    screen = Screen(json)
    with connect(server) as potluck:
        found = list(potluck.admin.accounts())
    if json:
        screen.emit({"accounts": found})
        return
    columns = [
        *(TableColumn("ID"), TableColumn("WALLET", shrinks=True), TableColumn("ROLES")),
        *(TableColumn("CREDITS", is_number=True), TableColumn("WEIGHT", is_number=True)),
        *(TableColumn("DEVICES", is_number=True), TableColumn("WAITING", is_number=True)),
        *(TableColumn("AGE", is_number=True), TableColumn("SUSPENDED")),
    ]
    show_table(screen.out, columns, [_row(account) for account in found])


def set_roles(
    account: AccountArgument,
    roles: Annotated[
        list[str],
        typer.Argument(metavar="ROLE…", help="consumer, provider, admin; or none."),
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Say what an account is here: all its roles, admin among them."""
    screen = Screen(json)
    wanted = _roles(roles)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.set_roles(account_id, wanted)
    if json:
        screen.emit({"account_id": account_id, "roles": wanted})
    else:
        screen.out.line(f"{account} is now: {', '.join(wanted) or 'none'}.")


def suspend(
    account: AccountArgument,
    reason: Annotated[str, typer.Option(help="Told to whoever is suspended.")] = "",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Stop an account at its next call: tasks are cancelled, machines leave."""
    screen = Screen(json)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.suspend(account_id, reason)
    if json:
        screen.emit({"account_id": account_id, "suspended": True})
    else:
        screen.out.line(f"Suspended {account}. `potluck admin resume` lets it in again.")


def resume(account: AccountArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Let a suspended account in again."""
    screen = Screen(json)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.resume(account_id)
    if json:
        screen.emit({"account_id": account_id, "suspended": False})
    else:
        screen.out.line(f"{account} may come in again.")


def grant(
    account: AccountArgument,
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
        account_id = find_account(potluck, account)
        potluck.admin.grant(account_id, amount_micro)
    if json:
        screen.emit({"account_id": account_id, "amount_micro": amount_micro})
    else:
        screen.out.line(f"Gave {show_credits(amount_micro)} credits to {account}.")


def find_account(potluck: "Potluck", named: str) -> str:
    """The id of an account that was named by it, or by its wallet."""
    if not named.lower().startswith("0x"):
        return named
    wanted = named.lower()
    for account in potluck.admin.accounts():
        if account.address.lower() == wanted:
            return account.id
    raise NotFound(
        f"The wallet {named} has no account here.", "`potluck admin accounts` lists them."
    )


def _roles(words: list[str]) -> list[Role]:
    if words == ["none"]:
        return []
    try:
        return [Role(word) for word in dict.fromkeys(words)]
    except ValueError as error:
        raise InvalidInput(
            f"{' '.join(words)!r} are not roles.", "They are: consumer, provider, admin; or none."
        ) from error


def _most(limit: int | None) -> str:
    return "" if limit is None else f"≤ {limit:,}"


def _row(account: AccountView) -> list[Cell]:
    suspended = "" if account.suspended_at is None else account.suspended_for or "yes"
    return [
        *(Cell(account.id), Cell(account.address), Cell(", ".join(account.roles))),
        *(Cell(show_credits(account.available_micro)), Cell(f"{account.quota.weight:g}")),
        Cell(_most(account.quota.max_running_devices)),
        Cell(_most(account.quota.max_queued_tasks)),
        Cell(show_age(account.created_at, datetime.now(UTC))),
        Cell(suspended, Tone.BAD),
    ]
