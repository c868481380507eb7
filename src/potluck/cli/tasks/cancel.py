"""`potluck cancel`: cancels a task."""

from potluck.cli.options import JsonOption, ServerOption, TaskArgument, connect
from potluck.cli.tasks.resolve_task import resolve_task_to_cancel
from potluck.cli.terminal.screen import Screen, printable
from potluck.model.task import TaskState


def cancel(task: TaskArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Cancel a task that waits or runs."""
    screen = Screen(json)
    with connect(server) as potluck:
        before = resolve_task_to_cancel(potluck, task)
        cancelled = potluck.tasks.cancel(before.id)
    name = f"{printable(cancelled.name)} ({cancelled.id})"
    if json:
        screen.emit(cancelled)
    elif before.state is TaskState.CANCELLED:
        screen.out.line(f"{name} was already cancelled.")
    else:
        screen.out.line(f"Cancelled {name}.")
