"""`potluck admin rotate-key`: a new encryption key, and all that is sealed rewritten with it."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from potluck.consumer import Potluck
    from potluck.wire.identity import RotationProgress

# Nothing could be rewritten: others hold just those rows, for a moment.
_PAUSE_SECONDS = 0.2


def rotate_key(
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="Make no new key; rewrite what older keys still seal."),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Change the key that seals what is sensitive, while everything runs."""
    screen = Screen(json)
    with connect(server) as potluck, LiveLine(screen) as line:
        done = _rotate(potluck, not rewrite, line)
    if json:
        screen.emit(done)
        return
    screen.out.line(f"The key is {done.key_id} now; {done.rewritten} rows were sealed anew.")
    if done.unreadable:
        screen.err.line(
            f"Tasks that do not open, left as they are with their key: {done.unreadable}."
            " The server's log names them."
        )
    if not rewrite:
        screen.err.line("Back the key's file up, apart from the database's backup.")


def _rotate(potluck: "Potluck", new_key: bool, line: LiveLine) -> "RotationProgress":
    """Call by call, so that it can be cut short anywhere, and goes on with --rewrite."""
    from msgspec.structs import replace

    rewritten, progress = 0, potluck.admin.rotate_key(new_key)
    while progress.remaining:
        line.say(f"{progress.remaining} rows to rewrite")
        rewritten += progress.rewritten
        if not (progress.rewritten or new_key):
            time.sleep(_PAUSE_SECONDS)
        new_key, progress = False, potluck.admin.rotate_key()
    return replace(progress, rewritten=rewritten + progress.rewritten)
