"""`potluck cancel`: cancels a task."""

from potluck.cli.options import JsonOption, ServerOption, TaskArgument, connect
from potluck.cli.tasks.resolve_task import resolve_task_to_cancel
from potluck.cli.terminal.screen import Screen, printable


def cancel(task: TaskArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Cancel a task that waits or runs."""
    screen = Screen(json)
    with connect(server) as potluck:
        cancelled = potluck.tasks.cancel(resolve_task_to_cancel(potluck, task))
    if json:
        screen.emit(cancelled)
    else:
        screen.out.line(f"Cancelled {printable(cancelled.name)} ({cancelled.id}).")
