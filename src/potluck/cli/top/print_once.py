"""One look, printed: for pipes, and for whoever wants no more than that."""

from potluck.cli.terminal.screen import Pane
from potluck.cli.terminal.table import (
    Cell,
    Columns,
    filled,
    show_table,
)
from potluck.cli.top.snapshot import TopSnapshot
from potluck.cli.top.text import (
    DEVICE_COLUMNS,
    TASK_COLUMNS,
    DeviceOrder,
    TaskOrder,
    TextRow,
    device_rows,
    head,
    task_rows,
)


def show_once(pane: Pane, picture: TopSnapshot) -> None:
    for line in head(picture):
        pane.line(" · ".join(pane.paint(cell.text, cell.tone) for cell in line))
    tasks = task_rows(picture, TaskOrder.AGE, "")
    _show(pane, TASK_COLUMNS, tasks if pane.is_terminal else list(map(_whole, tasks)))
    _show(pane, DEVICE_COLUMNS, device_rows(picture, DeviceOrder.NODE, ""))


def _whole(task: TextRow) -> TextRow:
    """With all of its id, for programs and for copying."""
    return TextRow(task.key, [Cell(task.key), *task.cells[1:]])


def _show(pane: Pane, columns: Columns, rows: list[TextRow]) -> None:
    if rows:
        pane.line()
        show_table(pane, *filled(columns, [row.cells for row in rows]))
