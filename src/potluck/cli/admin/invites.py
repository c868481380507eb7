"""`potluck admin invite` and `invites`: access where registration is not open."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.account.lifetime import parse_lifetime
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.account import Role
from potluck.model.error import NotFound
from potluck.model.units import parse_credits, show_ahead, show_credits
from potluck.wire.identity import InviteView, NewInvite

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def invite(
    role: Annotated[
        list[Role] | None,
        typer.Option(
            metavar="ROLE", help="A role of the new account; repeatable.", show_default="consumer"
        ),
    ] = None,
    credit: Annotated[
        str, typer.Option("--credits", metavar="CREDITS", help="Credits for each new account.")
    ] = "0",
    uses: Annotated[int, typer.Option(min=1, help="How many accounts can use it.")] = 1,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="Its lifetime, such as 12h or 7d.")
    ] = "7d",
    note: Annotated[
        str, typer.Option(help="For admins, such as the invited person.", show_default=False)
    ] = "",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Make an invite and show its code, once."""
    screen = Screen(json)
    request = NewInvite(
        tuple(role or [Role.CONSUMER]),
        parse_credits(credit, "--credits"),
        uses,
        parse_lifetime(expires),
        note,
    )
    with connect(server) as potluck:
        new, address, join = (
            potluck.admin.invite(request),
            _pinned_address(potluck),
            _install_command(potluck),
        )
    if json:
        screen.emit(new)
        return
    screen.err.line(f"Made {new.invite.id}. Its code:")
    screen.out.line(new.code)
    screen.err.line("It is shown only once; send it over a secure channel. To use it:")
    if join is not None:
        screen.err.line(f"  {join}", Tone.STRONG)
    screen.err.line(f"  export POTLUCK_INVITE={new.code}", Tone.STRONG)
    screen.err.line(f"  potluck login {address}", Tone.STRONG)


def invites(
    revoke: Annotated[
        str | None, typer.Option(metavar="INVITE_ID", help="Revoke this invite.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show usable invites, or revoke one."""
    screen = Screen(json)
    with connect(server) as potluck:
        if revoke is not None:
            potluck.admin.revoke_invite(revoke)
        usable = potluck.admin.invites()
    if json:
        screen.emit({"invites": usable})
        return
    if revoke is not None:
        screen.err.line(f"Revoked {revoke}. Accounts made with it stay.")
    columns = [
        *(TableColumn("ID"), TableColumn("ROLES"), TableColumn("CREDITS", is_number=True)),
        *(TableColumn("USES LEFT", is_number=True), TableColumn("ENDS IN", is_number=True)),
        TableColumn("NOTE", shrinks=True),
    ]
    show_table(screen.out, *drop_empty_columns(columns, [_row(row) for row in usable]))


def _pinned_address(potluck: "Potluck") -> str:
    """The server's URL, with its CA fingerprint if it has its own authority."""
    from potluck.consumer.http.connect import pinned_fingerprint

    fingerprint = pinned_fingerprint(potluck.ca_file)
    return potluck.url if fingerprint is None else f"{potluck.url} --ca-fingerprint {fingerprint}"


def _install_command(potluck: "Potluck") -> str | None:
    """The command that installs Potluck from this server; None if it serves no package."""
    from potluck.consumer.http.connect import pinned_fingerprint
    from potluck.wire.package import installers

    try:
        package = potluck.package()
    except NotFound:
        return None
    return installers(potluck.url, package, pinned_fingerprint(potluck.ca_file) is not None).pip


def _row(invite: InviteView) -> list[Cell]:
    return [
        *(Cell(invite.id), Cell(", ".join(invite.roles)), Cell(show_credits(invite.credit_micro))),
        *(Cell(str(invite.uses_left)), Cell(show_ahead(invite.expires_at, datetime.now(UTC)))),
        Cell(invite.note),
    ]
