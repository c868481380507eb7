"""`potluck admin invite` and `invites`: how strangers get in where registration is not open."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.account.lifetime import parse_lifetime
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import show_ahead, show_credits
from potluck.model.account import Role
from potluck.model.error import NotFound
from potluck.model.units import parse_credits
from potluck.wire.identity import InviteView, NewInvite

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def invite(
    role: Annotated[
        list[Role] | None,
        typer.Option(metavar="ROLE", help="What they become; repeat it.", show_default="consumer"),
    ] = None,
    credit: Annotated[
        str, typer.Option("--credits", metavar="CREDITS", help="For each account that it lets in.")
    ] = "0",
    uses: Annotated[int, typer.Option(min=1, help="How many accounts it lets in.")] = 1,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="How long it is good, such as 12h or 7d.")
    ] = "7d",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Make an invite and show its code, this once."""
    screen = Screen(json)
    wanted = NewInvite(
        tuple(role or [Role.CONSUMER]),
        parse_credits(credit, "--credits"),
        uses,
        parse_lifetime(expires),
    )
    with connect(server) as potluck:
        made, address, join = potluck.admin.invite(wanted), _with_pin(potluck), _join(potluck)
    if json:
        screen.emit(made)
        return
    screen.err.line(f"Made {made.invite.id}. Its code:")
    screen.out.line(made.code)
    screen.err.line("It is shown this once; hand it over on a safe way. To come in with it:")
    if join is not None:
        screen.err.line(f"  {join}", Tone.STRONG)
    screen.err.line("  export POTLUCK_INVITE=CODE", Tone.STRONG)
    screen.err.line(f"  potluck login {address}", Tone.STRONG)


def invites(
    revoke: Annotated[
        str | None, typer.Option(metavar="INVITE_ID", help="Make this one worth nothing.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the invites that can still be used, or revoke one."""
    screen = Screen(json)
    with connect(server) as potluck:
        if revoke is not None:
            potluck.admin.revoke_invite(revoke)
        found = potluck.admin.invites()
    if json:
        screen.emit({"invites": found})
        return
    if revoke is not None:
        screen.err.line(f"Revoked {revoke}. Who came in with it stays.")
    columns = [
        *(TableColumn("ID"), TableColumn("ROLES"), TableColumn("CREDITS", is_number=True)),
        *(TableColumn("USES LEFT", is_number=True), TableColumn("ENDS IN", is_number=True)),
    ]
    show_table(screen.out, columns, [_row(each) for each in found])


def _with_pin(potluck: "Potluck") -> str:
    """The address, with what others need to believe a server that has an authority of its own."""
    from potluck.consumer.http.ca_pinning import pinned_fingerprint

    fingerprint = pinned_fingerprint(potluck.ca_file)
    return potluck.url if fingerprint is None else f"{potluck.url} --ca-fingerprint {fingerprint}"


def _join(potluck: "Potluck") -> str | None:
    """What installs Potluck from this server; an older one, or one that was never installed itself,
    has none.
    """
    from potluck.consumer.http.ca_pinning import pinned_fingerprint
    from potluck.wire.package import installers

    try:
        package = potluck.package()
    except NotFound:
        return None
    return installers(potluck.url, package, pinned_fingerprint(potluck.ca_file) is not None).pip


def _row(each: InviteView) -> list[Cell]:
    return [
        *(Cell(each.id), Cell(", ".join(each.roles)), Cell(show_credits(each.credit_micro))),
        *(Cell(str(each.uses_left)), Cell(show_ahead(each.expires_at, datetime.now(UTC)))),
    ]
