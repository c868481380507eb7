"""`potluck whoami`: the account behind my token."""

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.screen import Screen, Tone
from potluck.cli.units import show_credits


def whoami(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show my account, its credits and the server."""
    screen = Screen(json)
    with connect(server) as potluck:
        me, url = potluck.me(), potluck.url
    if json:
        screen.emit(me)
        return
    screen.out.line(screen.out.paint(me.address, Tone.STRONG))
    screen.out.line(", ".join(me.roles) or "no role yet")
    held = f", {show_credits(me.held_micro)} more held for tasks" if me.held_micro else ""
    screen.out.line(f"{show_credits(me.available_micro)} credits available{held}")
    screen.out.line(f"at {url}", Tone.FAINT)
