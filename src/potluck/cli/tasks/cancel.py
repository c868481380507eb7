"""`potluck cancel`: calls a task off."""

from potluck.cli.options import JsonOption, ServerOption, TaskArgument, connect
from potluck.cli.tasks.resolve_task import pick_to_end
from potluck.cli.terminal.screen import Screen, printable


def cancel(task: TaskArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Call a task off, whether it waits or runs."""
    screen = Screen(json)
    with connect(server) as potluck:
        cancelled = potluck.tasks.cancel(pick_to_end(potluck, task))
    if json:
        screen.emit(cancelled)
    else:
        screen.out.line(f"Cancelled {printable(cancelled.name)} ({cancelled.id}).")
