"""The page where a browser's wallet signs: shown, and opened if a browser is available."""

import os
import sys
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.units import show_seconds

if TYPE_CHECKING:
    from potluck.wire.identity import TerminalAsked


def show_page(screen: Screen, request: "TerminalAsked", url: str) -> None:
    """Shows the address and the code to compare, but not the secret used for polling."""
    if screen.json:
        screen.emit(
            {
                "event": "approve",
                "verification_uri": request.verification_uri,
                "verification_uri_complete": request.verification_uri_complete,
                "user_code": request.user_code,
                "expires_in": request.expires_in,
            }
        )
        return
    pane = screen.err
    pane.line("Open this page where your wallet is, and compare the code before you sign:")
    pane.line(f"  {printable(request.verification_uri_complete)}", Tone.STRONG)
    pane.line(f"  {printable(request.user_code)}", Tone.STRONG)
    pane.line(f"Waiting; the code is valid for {show_seconds(request.expires_in)}.", Tone.FAINT)
    page = request.verification_uri_complete
    if pane.is_terminal and _has_windows() and is_page_of(url, page):
        webbrowser.open(page)


def is_page_of(url: str, page: str) -> bool:
    """Whether a page belongs to the server that the user named; no other page is opened."""
    try:
        parts = urlsplit(page)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.hostname == urlsplit(url).hostname


def _has_windows() -> bool:
    """Without windows, a text browser would hide our output."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
