"""Notebook displays that are redrawn until their subject is final.

IPython is used only where it is running already.
"""

import sys
import threading
from collections.abc import Callable
from html import escape
from typing import Protocol

from msgspec import Struct

_PAUSE_SECONDS = 0.5


class NotebookView(Struct, frozen=True):
    """A display at one moment, as text and as HTML. `is_over`: it is final."""

    text: str
    html: str
    is_over: bool = False

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}


class Handle(Protocol):
    """The part of IPython's DisplayHandle that we use."""

    def update(self, obj: object) -> None: ...


def in_kernel() -> bool:
    """Whether displays go to a notebook, not to a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def display(view: NotebookView) -> Handle:
    from IPython.display import display as show  # it is running: it asked us for the display

    handle: Handle = show(view, display_id=True)  # type: ignore[no-untyped-call]
    return handle


def show_live(get_view: Callable[[], NotebookView]) -> None:
    """For `_ipython_display_`: draws the view, and redraws it until it is final.

    Outside a notebook it raises NotImplementedError, and IPython falls back to the `repr`.
    """
    if not in_kernel():
        raise NotImplementedError
    handle = display(get_view())
    threading.Thread(target=_redraw, args=(handle, get_view), daemon=True).start()


def _redraw(handle: Handle, get_view: Callable[[], NotebookView]) -> None:
    shown: NotebookView | None = None
    pause = threading.Event()
    while shown is None or not shown.is_over:
        view = get_view()
        if view != shown:
            handle.update(view)
        shown = view
        pause.wait(0 if shown.is_over else _PAUSE_SECONDS)


def bar(text: str, done: int | None = None, total: int | None = None) -> str:
    """A progress bar with text beside it; indeterminate without a total."""
    position = "" if total is None else f' value="{done or 0}" max="{max(total, 1)}"'
    return (
        f'<div style="font-family:monospace"><progress{position}'
        f' style="width:16em;vertical-align:middle"></progress> {escape(text)}</div>'
    )


def line(text: str) -> str:
    return f'<div style="font-family:monospace;white-space:pre-wrap">{escape(text)}</div>'
