"""`potluck provider drain`: finish what runs, take nothing more, and end."""

from collections.abc import Callable

from potluck.cli.options import DataDirOption, JsonOption, ServerOption
from potluck.cli.provider.target import (
    SENTENCES,
    Effect,
    NodeOption,
    side,
)
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen
from potluck.cli.terminal.units import show_count


def drain(
    node: NodeOption = None,
    data_dir: DataDirOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Finish what runs, take nothing more, and end; waits for that."""
    screen = Screen(json)
    with side(node, server, data_dir) as machine, LiveLine(screen) as line:
        effect = machine.drain(counting(line))
    if json:
        screen.emit({"drained": effect is Effect.NOW, "in_force": effect})
    elif effect is Effect.NOW:
        screen.out.line("Drained: everything is finished, and the provider has ended.")
    else:
        screen.out.line(f"It will finish what runs, and end. {SENTENCES[effect]}")


def counting(line: LiveLine) -> Callable[[int], None]:
    """Says how much is left, while it is."""

    def say(attempts: int) -> None:
        left = show_count(attempts, "task") if attempts else "its last words"
        line.say(f"waiting for {left} (Ctrl-C stops the waiting, not the machine)")

    return say
