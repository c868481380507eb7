"""What a notebook shows of things that change: one display, drawn anew until it is over.

IPython is used where it runs already, and never imported for its own sake.
"""

import sys
import threading
from collections.abc import Callable
from html import escape
from typing import Protocol

from msgspec import Struct

_PAUSE_SECONDS = 0.5


class NotebookView(Struct, frozen=True):
    """How something looks at a moment, in words and in a page. `is_over`: it stays so."""

    text: str
    html: str
    is_over: bool = False

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}


class Handle(Protocol):
    """IPython's own, as far as we use it."""

    def update(self, obj: object) -> None: ...


def in_kernel() -> bool:
    """Whether what is displayed goes to a notebook, and not to a terminal or to nobody."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def display(picture: NotebookView) -> Handle:
    from IPython.display import display as show  # it runs: we were asked to be shown by it

    handle: Handle = show(picture, display_id=True)  # type: ignore[no-untyped-call]
    return handle


def show_live(look: Callable[[], NotebookView]) -> None:
    """For `_ipython_display_`: draws it, and draws it anew until it is over.

    Where nothing can be drawn anew IPython falls back to the usual words.
    """
    if not in_kernel():
        raise NotImplementedError
    handle = display(look())
    threading.Thread(target=_redraw, args=(handle, look), daemon=True).start()


def _redraw(handle: Handle, look: Callable[[], NotebookView]) -> None:
    shown: NotebookView | None = None
    pause = threading.Event()
    while shown is None or not shown.is_over:
        picture = look()
        if picture != shown:
            handle.update(picture)
        shown = picture
        pause.wait(0 if shown.is_over else _PAUSE_SECONDS)


def bar(text: str, done: int | None = None, total: int | None = None) -> str:
    """A bar in whatever colours the page has, and words beside it; without numbers, it wanders."""
    sides = "" if total is None else f' value="{done or 0}" max="{max(total, 1)}"'
    return (
        f'<div style="font-family:monospace"><progress{sides}'
        f' style="width:16em;vertical-align:middle"></progress> {escape(text)}</div>'
    )


def line(text: str) -> str:
    return f'<div style="font-family:monospace;white-space:pre-wrap">{escape(text)}</div>'
