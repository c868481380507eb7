"""`potluck admin tasks`: the tasks of all accounts, without their names and content."""

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import typer

from potluck.cli.admin.change import find_account
from potluck.cli.options import JsonOption, LimitOption, ServerOption, connect
from potluck.cli.tasks.task_text import TONES
from potluck.cli.terminal.screen import Screen
from potluck.cli.terminal.table import Cell, TableColumn, drop_empty_columns, show_table
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind
from potluck.model.units import parse_moment, show_age, show_credits
from potluck.wire.admin import PoolTask


def tasks(
    account: Annotated[
        str | None, typer.Option(metavar="ACCOUNT", help="Only of this id, wallet or label.")
    ] = None,
    state: Annotated[
        list[TaskState] | None,
        typer.Option(help="Only tasks in this state; repeatable.", show_default=False),
    ] = None,
    kind: Annotated[TaskKind | None, typer.Option(help="Only tasks of this kind.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Submitted since: 2h (ago), 2026-01-31.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Submitted before this time.")
    ] = None,
    limit: LimitOption = 20,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List the tasks of all accounts, newest first, without their names and content."""
    screen, now = Screen(json), datetime.now(UTC)
    since_at = parse_moment(since, "--since", now) if since else None
    until_at = parse_moment(until, "--until", now) if until else None
    with connect(server) as potluck:
        account_id = find_account(potluck, account) if account else None
        listed = potluck.admin.tasks(account_id, tuple(state or ()), kind, since_at, until_at)
        tasks = list(islice(listed, limit))
    if json:
        screen.emit({"tasks": tasks})
        return
    columns = [
        *(TableColumn("TASK"), TableColumn("ACCOUNT", shrinks=True), TableColumn("KIND")),
        *(TableColumn("STATE"), TableColumn("REASON"), TableColumn("NODES", shrinks=True)),
        *(TableColumn("COST", is_number=True), TableColumn("AGE", is_number=True)),
    ]
    show_table(screen.out, *drop_empty_columns(columns, [_row(task, now) for task in tasks]))


def _row(task: PoolTask, now: datetime) -> list[Cell]:
    return [
        *(Cell(task.id), Cell(task.label or task.address), Cell(task.kind)),
        Cell(task.state, TONES[task.state]),
        Cell(task.reason or ""),
        Cell(", ".join(task.node_ids)),
        Cell(show_credits(task.charge_micro) if task.charge_micro else ""),
        Cell(show_age(task.created_at, now)),
    ]
