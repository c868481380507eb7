"""`potluck admin rotate-key`: make a new encryption key, and re-encrypt all rows with it."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen

if TYPE_CHECKING:
    from potluck.consumer import Potluck
    from potluck.wire.identity import RotationProgress

# Wait if other transactions hold all remaining rows.
_PAUSE_SECONDS = 0.2


def rotate_key(
    rewrite: Annotated[
        bool,
        typer.Option("--rewrite", help="Make no new key; re-encrypt rows that use older keys."),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Change the encryption key of sensitive data, without downtime."""
    screen = Screen(json)
    with connect(server) as potluck, LiveLine(screen) as line:
        done = _rotate(potluck, not rewrite, line)
    if json:
        screen.emit(done)
        return
    screen.out.line(f"The key is now {done.key_id}; {done.rewritten} rows were re-encrypted.")
    if done.unreadable:
        screen.err.line(
            f"Tasks that cannot be decrypted, and were left unchanged: {done.unreadable}."
            " The server's log names them."
        )
    if not rewrite:
        screen.err.line("Back up the key file, separately from the database.")


def _rotate(potluck: "Potluck", new_key: bool, line: LiveLine) -> "RotationProgress":
    """Works in small calls, so it can be interrupted, and continued with --rewrite."""
    from msgspec.structs import replace

    rewritten, progress = 0, potluck.admin.rotate_key(new_key)
    while progress.remaining:
        line.say(f"{progress.remaining} rows to rewrite")
        rewritten += progress.rewritten
        if not (progress.rewritten or new_key):
            time.sleep(_PAUSE_SECONDS)
        new_key, progress = False, potluck.admin.rotate_key()
    return replace(progress, rewritten=rewritten + progress.rewritten)
