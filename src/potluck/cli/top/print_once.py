"""One printed snapshot, for pipes and --once."""

from potluck.cli.terminal.screen import Pane
from potluck.cli.terminal.table import Cell, Columns, drop_empty_columns, show_table
from potluck.cli.top.snapshot import TopSnapshot
from potluck.cli.top.text import (
    DEVICE_COLUMNS,
    TASK_COLUMNS,
    DeviceOrder,
    TaskOrder,
    TextRow,
    device_rows,
    head_lines,
    task_rows,
)


def show_once(pane: Pane, snapshot: TopSnapshot) -> None:
    for line in head_lines(snapshot):
        pane.line(" · ".join(pane.paint(cell.text, cell.tone) for cell in line))
    tasks = task_rows(snapshot, TaskOrder.AGE, "")
    _show(pane, TASK_COLUMNS, tasks if pane.is_terminal else list(map(_with_full_id, tasks)))
    _show(pane, DEVICE_COLUMNS, device_rows(snapshot, DeviceOrder.NODE, ""))


def _with_full_id(task: TextRow) -> TextRow:
    """With the full id, for programs."""
    return TextRow(task.key, [Cell(task.key), *task.cells[1:]])


def _show(pane: Pane, columns: Columns, rows: list[TextRow]) -> None:
    if rows:
        pane.line()
        show_table(pane, *drop_empty_columns(columns, [row.cells for row in rows]))
