"""`potluck admin accounts`, `roles`, `label`, `suspend`, `resume`, `grant` and `revoke`."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.admin.change import ACCOUNT, change
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.account import Role
from potluck.model.error import InvalidInput
from potluck.model.units import parse_amount, show_age, show_amount, show_credits
from potluck.wire.identity import AccountView

AccountArgument = Annotated[
    str,
    typer.Argument(metavar="ACCOUNT", help="An account's id, wallet or label.", show_default=False),
]
AmountArgument = Annotated[
    str, typer.Argument(metavar="CREDITS", help="Such as 25 or 0.5.", show_default=False)
]
ReasonOption = Annotated[
    str, typer.Option(help="The reason, for the audit log.", show_default=False)
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
    new_roles = _parse_roles(roles)
    change(
        ACCOUNT,
        account,
        lambda admin, account_id: admin.set_roles(account_id, new_roles),
        {"roles": new_roles},
        f"{account} is now: {', '.join(new_roles) or 'none'}.",
        server,
        json,
    )


def suspend(
    account: AccountArgument,
    reason: Annotated[str, typer.Option(help="The reason, shown to the account.")] = "",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Suspend an account immediately: its tasks are cancelled, its machines leave."""
    change(
        ACCOUNT,
        account,
        lambda admin, account_id: admin.suspend(account_id, reason),
        {"suspended": True},
        f"Suspended {account}. Undo with `potluck admin resume`.",
        server,
        json,
    )


def resume(account: AccountArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """End the suspension of an account."""
    change(
        ACCOUNT,
        account,
        lambda admin, account_id: admin.resume(account_id),
        {"suspended": False},
        f"{account} is no longer suspended.",
        server,
        json,
    )


def grant(
    account: AccountArgument,
    amount: AmountArgument,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Grant credits to an account."""
    amount_micro = parse_amount(amount, "CREDITS")
    change(
        ACCOUNT,
        account,
        lambda admin, account_id: admin.grant(account_id, amount_micro),
        {"amount_micro": amount_micro},
        f"Granted {show_amount(amount_micro)} to {account}.",
        server,
        json,
    )


def revoke(
    account: AccountArgument,
    amount: AmountArgument,
    reason: ReasonOption,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take credits back from an account, at most what it has available."""
    amount_micro = parse_amount(amount, "CREDITS")
    change(
        ACCOUNT,
        account,
        lambda admin, account_id: admin.revoke(account_id, amount_micro, reason),
        {"amount_micro": -amount_micro},
        f"Took {show_amount(amount_micro)} from {account}.",
        server,
        json,
    )


def take(
    account: AccountArgument,
    amount: AmountArgument,
    reason: ReasonOption,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """The earlier name of `potluck admin revoke`."""
    screen = Screen(json)
    screen.err.line("`potluck admin take` is called `potluck admin revoke` now.", Tone.FAINT)
    revoke(account, amount, reason, server, json)


def label(
    account: AccountArgument,
    text: Annotated[str, typer.Argument(metavar="LABEL", help='Such as "Ada"; "" removes it.')],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Name an account for admins; its label works in place of its wallet."""
    change(
        ACCOUNT,
        account,
        lambda admin, account_id: admin.set_label(account_id, text),
        {"label": text},
        f"{account} is now labelled {text}." if text else "Removed the label.",
        server,
        json,
    )


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
