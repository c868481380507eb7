"""The page where a browser's wallet signs: told to the person, and opened where that works."""

import os
import sys
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.units import show_seconds

if TYPE_CHECKING:
    from potluck.wire.identity import TerminalAsked


def show_page(screen: Screen, asked: "TerminalAsked", url: str) -> None:
    """Where to go and which code to compare. The secret that we poll with is not shown."""
    if screen.json:
        screen.emit(
            {
                "event": "approve",
                "verification_uri": asked.verification_uri,
                "verification_uri_complete": asked.verification_uri_complete,
                "user_code": asked.user_code,
                "expires_in": asked.expires_in,
            }
        )
        return
    pane = screen.err
    pane.line("Open this page where your wallet is, and compare the code before you sign:")
    pane.line(f"  {printable(asked.verification_uri_complete)}", Tone.STRONG)
    pane.line(f"  {printable(asked.user_code)}", Tone.STRONG)
    pane.line(f"Waiting; the code is good for {show_seconds(asked.expires_in)}.", Tone.FAINT)
    page = asked.verification_uri_complete
    if pane.is_terminal and _has_windows() and is_page_of(url, page):
        webbrowser.open(page)


def is_page_of(url: str, page: str) -> bool:
    """Whether a page is of the server that was typed: it does not choose what is opened here."""
    try:
        parts = urlsplit(page)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.hostname == urlsplit(url).hostname


def _has_windows() -> bool:
    """A browser in the terminal would take the place of what we say there."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
