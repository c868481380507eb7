"""`potluck explain`: why a task waits, and what would help."""

from datetime import UTC, datetime

from potluck.cli.options import JsonOption, ServerOption, TaskArgument, connect
from potluck.cli.tasks.resolve_task import pick_to_read
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.table import Cell
from potluck.cli.terminal.units import show_ahead, show_count
from potluck.wire.consumer import Explanation


def explain(task: TaskArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Say why a task waits, what would help, and when it may start."""
    screen = Screen(json)
    with connect(server) as potluck:
        said = potluck.tasks.explain(pick_to_read(potluck, task, screen))
    if json:
        screen.emit(said)
    else:
        _show(screen.out, said, datetime.now(UTC))


def _show(pane: Pane, said: Explanation, now: datetime) -> None:
    for line in explained(said, now):
        pane.line("".join(pane.paint(printable(cell.text), cell.tone) for cell in line))


def explained(said: Explanation, now: datetime) -> list[list[Cell]]:
    """As lines."""
    lines = [[Cell(said.sentence, Tone.STRONG)]]
    if told := when(said, now):
        lines.append([Cell(told)])
    if said.refusals:
        lines += [[], [Cell(f"Of {show_count(said.nodes, 'node')}:", Tone.FAINT)]]
        lines += [[Cell(f"  {refusal.sentence}")] for refusal in said.refusals]
    if said.changes:
        lines += [[], [Cell("What would help:", Tone.FAINT)]]
        lines += [[Cell(f"  {change}", Tone.GOOD)] for change in said.changes]
    return lines


def when(said: Explanation, now: datetime) -> str:
    """Where it stands, and when it may start if there is a basis for a guess."""
    parts = []
    if said.position is not None:
        place = "next" if said.position == 1 else f"number {said.position:,}"
        parts.append(f"It is {place} in the queue.")
    if said.estimated_start is not None:
        ahead = show_ahead(said.estimated_start, now)
        start = f"in {ahead}" if said.estimated_start > now else "at any moment"
        basis = "" if said.basis is None else f": {printable(said.basis)}"
        parts.append(f"It may start {start}{basis}.")
    return " ".join(parts)
