"""`potluck admin audit`: the audit log, and its verification."""

from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.error import Conflict
from potluck.wire.identity import AuditEntry, AuditVerdict


def audit(
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the hash chain from its start instead.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many entries.")] = 50,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Entries before this one.")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the audit log, newest first, or verify that it was not changed."""
    screen = Screen(json)
    with connect(server) as potluck:
        if verify:
            _report_verdict(screen, potluck.admin.verify_audit())
            return
        page = potluck.admin.audit(before, limit)
    if json:
        screen.emit(page)
        return
    columns = [
        TableColumn("NUMBER", is_number=True),
        TableColumn("AT"),
        TableColumn("EVENT"),
        TableColumn("ACTOR"),
        TableColumn("SUBJECT", shrinks=True),
        TableColumn("DETAIL", shrinks=True),
    ]
    show_table(screen.out, columns, [_row(entry) for entry in page.entries])
    if page.next_cursor is not None:
        screen.err.line(f"Older entries: --before {page.next_cursor}", Tone.FAINT)


def _report_verdict(screen: Screen, verdict: AuditVerdict) -> None:
    if screen.json:
        screen.emit(verdict)
    elif verdict.holds:
        screen.out.line(f"The audit log is intact: {verdict.entries} entries, head {verdict.head}.")
        screen.err.line("Store the head elsewhere: only it can show a truncated log.", Tone.FAINT)
    if not verdict.holds:
        raise Conflict(
            f"The audit log is broken at entry {verdict.broken_at}.",
            "The database was changed by hand. Compare it with a backup.",
        )


def _row(entry: AuditEntry) -> list[Cell]:
    detail = ", ".join(f"{name} {value}" for name, value in sorted(entry.detail.items()))
    at = entry.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return [
        Cell(text) for text in (str(entry.number), at, entry.kind, entry.actor, entry.subject)
    ] + [Cell(detail)]
