"""`potluck provider drain`: finish running tasks, take no new ones, and stop."""

from collections.abc import Callable

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.target import EFFECT_TEXTS, Effect, NodeOption, open_target
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen
from potluck.model.units import show_count


def drain(
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take no new tasks, finish the running ones, then stop; waits until then."""
    screen = Screen(json)
    with open_target(node, server, data_dir) as machine, LiveLine(screen) as line:
        effect = machine.drain(progress_reporter(line))
    if json:
        screen.emit({"drained": effect is Effect.NOW, "in_force": effect})
    elif effect is Effect.NOW:
        screen.out.line("Drained: all tasks have finished, and the provider has stopped.")
    else:
        screen.out.line(f"It will finish running tasks and stop. {EFFECT_TEXTS[effect]}")


def progress_reporter(line: LiveLine) -> Callable[[int], None]:
    """Returns a callback that shows how many tasks are left."""

    def say(attempts: int) -> None:
        left = show_count(attempts, "task") if attempts else "the provider"
        line.say(f"waiting for {left} to finish (Ctrl-C stops waiting, not the machine)")

    return say
