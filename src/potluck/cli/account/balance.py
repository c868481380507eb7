"""`potluck balance`: my credits, spent and earned."""

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer
from msgspec.structs import asdict

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.tasks.resolve_task import resolve_task_to_read, short_id
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.credit import EntryKind
from potluck.model.units import parse_moment, show_amount, show_credits, show_moment
from potluck.wire.money.ledger import LedgerEntry, LedgerLine, LedgerSummary, LineBy

_KIND_TEXTS = {
    EntryKind.GRANT: ("granted by an admin", Tone.GOOD),
    EntryKind.HOLD: ("held for", Tone.FAINT),
    EntryKind.CHARGE: ("spent on", Tone.WAITING),
    EntryKind.REWARD: ("earned by", Tone.GOOD),
    EntryKind.REFUND: ("refunded from", Tone.FAINT),
    EntryKind.RELEASE: ("paid for", Tone.GOOD),
    EntryKind.REVERSAL: ("returned for lost work of", Tone.FAINT),
    EntryKind.FEE: ("fee of the operator for", Tone.WAITING),
    EntryKind.EPOCH: ("set aside for a payout", Tone.FAINT),
    EntryKind.PAYOUT: ("paid out", Tone.GOOD),
    EntryKind.DEPOSIT: ("deposited in the contract", Tone.GOOD),
}


def balance(
    since: Annotated[
        str,
        typer.Option(metavar="TIME", help="Such as 30d (ago) or 2026-01-31.", show_default=True),
    ] = "30d",
    by: Annotated[LineBy, typer.Option(help="One line per day or per task.")] = LineBy.DAY,
    kind: Annotated[
        list[EntryKind] | None,
        typer.Option(help="Only entries of this kind; repeatable.", show_default=False),
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="Only entries of this task.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, max=10_000, help="How many of the newest entries.")
    ] = 10,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show my credits, and the amounts spent and earned."""
    screen, kinds = Screen(json), tuple(kind or ())
    begin = parse_moment(since, "--since", datetime.now(UTC))
    with connect(server) as potluck:
        task_id = None if task is None else resolve_task_to_read(potluck, task, screen)
        summary = potluck.ledger.summary(by, since=begin)
        movements = potluck.ledger.entries(kinds, task_id=task_id, since=begin)
        entries = list(islice(movements, limit)) if limit else []
    if json:
        screen.emit({**asdict(summary), "entries": entries})
        return
    _show_balance(screen.out, summary)
    if summary.lines and task_id is None:
        _show_lines(screen.out, summary, by)
    if entries:
        _show_entries(screen.out, entries)


def _show_balance(pane: Pane, summary: LedgerSummary) -> None:
    held_suffix = (
        f", {show_credits(summary.held_micro)} more held for tasks" if summary.held_micro else ""
    )
    available = pane.paint(show_amount(summary.available_micro), Tone.STRONG)
    pane.line(f"{available} available{held_suffix}")
    if summary.is_free:
        pane.line("This pool is free of charge: no device has a price.", Tone.GOOD)
    totals = [
        f"{show_credits(micro)} {verb}"
        for micro, verb in (
            (summary.spent_micro, "spent"),
            (summary.earned_micro, "earned"),
            (summary.granted_micro, "granted"),
            (summary.deposited_micro, "deposited"),
            (summary.set_aside_micro, "set aside for payouts"),
        )
        if micro
    ]
    since = show_moment(summary.since, datetime.now(UTC))
    if totals:
        pane.line(f"since {since}: {', '.join(totals)}", Tone.FAINT)
    elif not summary.is_free:
        pane.line(f"Nothing was spent or earned since {since}.", Tone.FAINT)


def _show_lines(pane: Pane, summary: LedgerSummary, by: LineBy) -> None:
    amounts = {
        "SPENT": ([line.spent_micro for line in summary.lines], Tone.WAITING),
        "EARNED": ([line.earned_micro for line in summary.lines], Tone.GOOD),
        "GRANTED": ([line.granted_micro for line in summary.lines], Tone.GOOD),
    }
    if summary.deposited_micro:
        amounts["DEPOSITED"] = ([line.deposited_micro for line in summary.lines], Tone.GOOD)
    if summary.set_aside_micro:
        amounts["SET ASIDE"] = ([line.set_aside_micro for line in summary.lines], Tone.FAINT)
    columns = [
        TableColumn("DAY" if by is LineBy.DAY else "TASK", shrinks=by is LineBy.TASK),
        *(TableColumn(title, is_number=True) for title in amounts),
    ]
    pane.line()
    show_table(
        pane,
        columns,
        [
            [
                Cell(_line_title(line), Tone.STRONG),
                *(_amount(column[index], tone) for column, tone in amounts.values()),
            ]
            for index, line in enumerate(summary.lines)
        ],
    )


def _line_title(line: LedgerLine) -> str:
    if line.day is not None:
        return line.day.isoformat()
    if line.task_id is None:
        return "no task"
    if line.task_name is None:
        return f"{short_id(line.task_id)} on my machines"
    return f"{printable(line.task_name)} ({short_id(line.task_id)})"


def _amount(micro: int, tone: Tone) -> Cell:
    return Cell(show_credits(micro), tone) if micro else Cell("-", Tone.FAINT)


def _show_entries(pane: Pane, entries: list[LedgerEntry]) -> None:
    columns = [
        TableColumn("WHEN"),
        TableColumn("CREDITS", is_number=True),
        TableColumn("HELD", is_number=True),
        TableColumn("WHAT", shrinks=True),
    ]
    pane.line()
    show_table(pane, columns, [_entry_cells(entry) for entry in entries])


def _entry_cells(entry: LedgerEntry) -> list[Cell]:
    words, tone = _KIND_TEXTS[entry.kind]
    if entry.kind is EntryKind.GRANT and entry.available_micro < 0:
        words, tone = "taken back by an admin", Tone.WAITING
    if entry.kind is EntryKind.PAYOUT:
        words = f"{words}: {show_amount(-entry.claimable_micro)}"
    what = f"{words} {_purpose(entry)}".rstrip()
    return [
        Cell(f"{entry.at.astimezone():%Y-%m-%d %H:%M}"),
        _signed(entry.available_micro, tone),
        _signed(entry.held_micro, Tone.FAINT),
        Cell(what, Tone.PLAIN),
    ]


def _signed(micro: int, tone: Tone) -> Cell:
    plus = "+" if micro > 0 else ""
    return Cell(f"{plus}{show_credits(micro)}", tone) if micro else Cell("-", Tone.FAINT)


def _purpose(entry: LedgerEntry) -> str:
    if entry.task_id is None:
        return ""
    node = printable(entry.node_name or "a node")
    end = short_id(entry.task_id)
    task = f"{printable(entry.task_name)} ({end})" if entry.task_name else f"task {end}"
    return f"{node} with {task}" if entry.kind is EntryKind.REWARD else f"{task} on {node}"
