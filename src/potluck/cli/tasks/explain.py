"""`potluck explain`: shows why a task waits, and what would help."""

from datetime import UTC, datetime

from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.tasks.resolve_task import resolve_task_to_read
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell
from potluck.model.blob import SHORT_VERSION
from potluck.model.units import show_ahead, show_count
from potluck.wire.consumer import Explanation, MountedVolume


def explain(
    task: NewestTaskArgument = None, server: ServerOption = None, json: JsonOption = False
) -> None:
    """Show why a task waits, what would help, and when it may start.

    TASK#N explains one item of an array, or one call.
    """
    screen = Screen(json)
    with connect(server) as potluck:
        explanation = potluck.tasks.explain(resolve_task_to_read(potluck, task, screen))
    if json:
        screen.emit(explanation)
    else:
        _show(screen.out, explanation, datetime.now(UTC))


def _show(pane: Pane, explanation: Explanation, now: datetime) -> None:
    for line in format_explanation(explanation, now):
        pane.line("".join(pane.paint(printable(cell.text), cell.tone) for cell in line))


def format_explanation(explanation: Explanation, now: datetime) -> list[list[Cell]]:
    lines = [[Cell(explanation.sentence, Tone.STRONG)]]
    if start := describe_start(explanation, now):
        lines.append([Cell(start)])
    lines += [[Cell(describe_holders(volume))] for volume in explanation.volumes]
    if explanation.refusals:
        lines += [[], [Cell(f"Of {show_count(explanation.nodes, 'node')}:", Tone.FAINT)]]
        lines += [[Cell(f"  {refusal.sentence}")] for refusal in explanation.refusals]
    if explanation.changes:
        lines += [[], [Cell("What would help:", Tone.FAINT)]]
        lines += [[Cell(f"  {change}", Tone.GOOD)] for change in explanation.changes]
    return lines


def describe_holders(volume: MountedVolume) -> str:
    """Which nodes hold a volume: they come first."""
    name = f"{volume.name}@{volume.version[:SHORT_VERSION]}"
    if not volume.nodes:
        return f"No node holds {name} yet: the first one fetches it."
    more = volume.nodes - len(volume.node_names)
    names = ", ".join([*volume.node_names, *([f"{more:,} more"] if more else [])])
    verb, they = ("holds", "is") if volume.nodes == 1 else ("hold", "are")
    return f"{names} {verb} {name} already, and {they} preferred."


def describe_start(explanation: Explanation, now: datetime) -> str:
    """Its position in the queue, and the estimated start if there is one."""
    parts = []
    if explanation.position is not None:
        position = "next" if explanation.position == 1 else f"number {explanation.position:,}"
        parts.append(f"It is {position} in the queue.")
    if explanation.estimated_start is not None:
        ahead = show_ahead(explanation.estimated_start, now)
        start = f"in {ahead}" if explanation.estimated_start > now else "at any moment"
        basis = "" if explanation.basis is None else f": {printable(explanation.basis)}"
        parts.append(f"It may start {start}{basis}.")
    return " ".join(parts)
