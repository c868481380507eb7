"""`potluck admin accounts`, `roles`, `label`, `suspend`, `resume`, `grant` and `take`."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.account import Role
from potluck.model.error import InvalidInput, NotFound
from potluck.model.units import parse_credits, show_age, show_amount, show_credits
from potluck.wire.identity import AccountView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

AccountArgument = Annotated[
    str,
    typer.Argument(metavar="ACCOUNT", help="An account's id, wallet or label.", show_default=False),
]


def accounts(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show all accounts of the pool."""
    screen = Screen(json)
    with connect(server) as potluck:
        all_accounts = list(potluck.admin.accounts())
    if json:
        screen.emit({"accounts": all_accounts})
        return
    columns = [
        *(TableColumn("ID"), TableColumn("LABEL"), TableColumn("WALLET", shrinks=True)),
        TableColumn("ROLES"),
        *(TableColumn("CREDITS", is_number=True), TableColumn("WEIGHT", is_number=True)),
        *(TableColumn("DEVICES", is_number=True), TableColumn("WAITING", is_number=True)),
        *(TableColumn("AGE", is_number=True), TableColumn("SUSPENDED")),
    ]
    rows = [_row(account) for account in all_accounts]
    show_table(screen.out, *drop_empty_columns(columns, rows))


def set_roles(
    account: AccountArgument,
    roles: Annotated[
        list[str], typer.Argument(metavar="ROLE…", help="consumer, provider, admin; or none.")
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Set all roles of an account, including admin."""
    screen = Screen(json)
    new_roles = _parse_roles(roles)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.set_roles(account_id, new_roles)
    if json:
        screen.emit({"account_id": account_id, "roles": new_roles})
    else:
        screen.out.line(f"{account} is now: {', '.join(new_roles) or 'none'}.")


def suspend(
    account: AccountArgument,
    reason: Annotated[str, typer.Option(help="The reason, shown to the account.")] = "",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Suspend an account from its next request on: tasks are cancelled, machines leave."""
    screen = Screen(json)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.suspend(account_id, reason)
    if json:
        screen.emit({"account_id": account_id, "suspended": True})
    else:
        screen.out.line(f"Suspended {account}. Undo with `potluck admin resume`.")


def resume(account: AccountArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """End the suspension of an account."""
    screen = Screen(json)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.resume(account_id)
    if json:
        screen.emit({"account_id": account_id, "suspended": False})
    else:
        screen.out.line(f"{account} is no longer suspended.")


def grant(
    account: AccountArgument,
    amount: Annotated[
        str, typer.Argument(metavar="CREDITS", help="Such as 25 or 0.5.", show_default=False)
    ],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Grant credits to an account."""
    screen = Screen(json)
    amount_micro = parse_credits(amount, "CREDITS")
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.grant(account_id, amount_micro)
    if json:
        screen.emit({"account_id": account_id, "amount_micro": amount_micro})
    else:
        screen.out.line(f"Granted {show_amount(amount_micro)} to {account}.")


def take(
    account: AccountArgument,
    amount: Annotated[
        str, typer.Argument(metavar="CREDITS", help="Such as 25 or 0.5.", show_default=False)
    ],
    reason: Annotated[str, typer.Option(help="The reason, for the audit log.", show_default=False)],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take credits back from an account, at most what it has available."""
    screen = Screen(json)
    amount_micro = parse_credits(amount, "CREDITS")
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.take(account_id, amount_micro, reason)
    if json:
        screen.emit({"account_id": account_id, "amount_micro": -amount_micro})
    else:
        screen.out.line(f"Took {show_amount(amount_micro)} from {account}.")


def label(
    account: AccountArgument,
    text: Annotated[str, typer.Argument(metavar="LABEL", help='Such as "Ada"; "" removes it.')],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Name an account for admins; its label works in place of its wallet."""
    screen = Screen(json)
    with connect(server) as potluck:
        account_id = find_account(potluck, account)
        potluck.admin.set_label(account_id, text)
    if json:
        screen.emit({"account_id": account_id, "label": text})
    else:
        screen.out.line(f"{account} is now labelled {text}." if text else "Removed the label.")


def find_account(potluck: "Potluck", name: str) -> str:
    """The id of an account, given its id, its wallet or its label."""
    return name if name.startswith("account_") else find_account_view(potluck, name).id


def find_account_view(potluck: "Potluck", name: str) -> AccountView:
    lowered = name.strip().lower()
    for account in potluck.admin.accounts():
        if lowered and lowered in (account.id, account.address.lower(), account.label.lower()):
            return account
    raise NotFound(f"There is no account {name!r} here.", "`potluck admin accounts` lists them.")


def _parse_roles(words: list[str]) -> list[Role]:
    if words == ["none"]:
        return []
    try:
        return [Role(word) for word in dict.fromkeys(words)]
    except ValueError as error:
        raise InvalidInput(
            f"{' '.join(words)!r} are not roles.", "They are: consumer, provider, admin; or none."
        ) from error


def _limit_text(limit: int | None) -> str:
    return "" if limit is None else f"≤ {limit:,}"


def _row(account: AccountView) -> list[Cell]:
    suspended = "" if account.suspended_at is None else account.suspended_for or "yes"
    return [
        *(Cell(account.id), Cell(account.label, Tone.STRONG), Cell(account.address)),
        Cell(", ".join(account.roles)),
        *(Cell(show_credits(account.available_micro)), Cell(f"{account.quota.weight:g}")),
        Cell(_limit_text(account.quota.max_running_devices)),
        Cell(_limit_text(account.quota.max_queued_tasks)),
        Cell(show_age(account.created_at, datetime.now(UTC))),
        Cell(suspended, Tone.BAD),
    ]
