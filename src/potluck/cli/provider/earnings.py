"""`potluck provider earnings`: the credits my machines earned, by day and device."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import owner_client
from potluck.cli.options import JsonOption, ServerOption
from potluck.cli.results.usage import show_total_usage
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.units import parse_moment, show_amount, show_count, show_credits, show_seconds
from potluck.wire.consumer import NodeView
from potluck.wire.own_machines import Earned, Earnings


def earnings(
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Such as 30d (ago) or 2026-01-31; default: 30d."),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the credits my machines earned, by day and device."""
    screen = Screen(json)
    begin = parse_moment(since or "30d", "--since", datetime.now(UTC))
    with owner_client(screen, server) as potluck:
        report = potluck.own_nodes.earnings(begin)
        models = {} if json else _models(potluck.resources.nodes())
    if json:
        screen.emit(report)
    elif report.earned:
        _show(screen.out, report, models)
    else:
        screen.err.line(
            "No earnings in that time. `potluck provider explain` shows why no work arrives."
        )


def _models(nodes: Sequence[NodeView]) -> dict[str, str]:
    return {device.id: device.description.model for node in nodes for device in node.devices}


def _show(pane: Pane, report: Earnings, models: dict[str, str]) -> None:
    columns = [
        TableColumn("DAY"),
        TableColumn("NODE", shrinks=True),
        TableColumn("DEVICE", shrinks=True),
        TableColumn("ATTEMPTS", is_number=True),
        TableColumn("WORKED", is_number=True),
        TableColumn("EARNED", is_number=True),
        TableColumn("FEE", is_number=True),
    ]
    show_table(pane, columns, [_row(earned, models) for earned in report.earned])
    attempts = show_count(report.attempts, "attempt")
    worked = show_seconds(report.worked_seconds)
    earned, fee = show_amount(report.earned_micro), show_amount(report.fee_micro)
    pane.line(f"{earned} earned, {fee} fee: {attempts}, {worked} worked.", Tone.STRONG)
    pane.prose(f"Used: {show_total_usage(report.used)}.", Tone.FAINT)


def _row(earned: Earned, models: dict[str, str]) -> list[Cell]:
    device = earned.device_id
    device_text = "several" if device is None else models.get(device, short_id(device))
    return [
        *(Cell(earned.day.isoformat()), Cell(earned.node_name, Tone.STRONG), Cell(device_text)),
        *(Cell(f"{earned.attempts:,}"), Cell(show_seconds(earned.worked_seconds))),
        Cell(show_credits(earned.earned_micro), Tone.GOOD),
        Cell(show_credits(earned.fee_micro)),
    ]
