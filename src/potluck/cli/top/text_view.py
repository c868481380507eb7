"""A full-screen text."""

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from potluck.cli.terminal.screen import printable
from potluck.cli.terminal.table import RICH_STYLES
from potluck.cli.top.details import Lines


def render_lines(lines: Lines) -> Text:
    """Renders lines without control characters."""
    return Text("\n").join(
        Text().join(Text(printable(cell.text), RICH_STYLES[cell.tone]) for cell in line)
        for line in lines
    )


class TextView(Screen[None]):
    """A scrollable text; `again` requests new lines for a text that grows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "back", "Back"),
        Binding("up,k", "scroll('scroll_up')", "Up", show=False),
        Binding("down,j", "scroll('scroll_down')", "Down", show=False),
        Binding("pageup", "scroll('scroll_page_up')", "Page up", show=False),
        Binding("pagedown,space", "scroll('scroll_page_down')", "More"),
        Binding("home,g", "scroll('scroll_home')", "Top", show=False),
        Binding("end,G", "scroll('scroll_end')", "End"),
    ]

    def __init__(self, title: str, lines: Lines, again: Callable[[], None] | None = None):
        super().__init__()
        self._title = title
        self._lines = lines
        self._again = again

    def compose(self) -> ComposeResult:
        yield Static(Text(printable(self._title), "bold underline"), id="title")
        with VerticalScroll(id="body"):
            yield Static(render_lines(self._lines), id="text")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#body").can_focus = False
        if self._again is not None:
            self._go_to_end()

    def grow(self, lines: Lines) -> None:
        """Shows new lines, and follows the end if it was visible.

        Does nothing before the view is drawn and after it is closed.
        """
        if lines == self._lines:
            return
        self._lines = lines
        for body in self.query("#body"):
            is_at_end = body.scroll_y >= body.max_scroll_y - 1
            body.query_one("#text", Static).update(render_lines(lines))
            if is_at_end:
                self._go_to_end()

    def refresh_lines(self) -> None:
        if self._again is not None:
            self._again()

    def _go_to_end(self) -> None:
        self.call_after_refresh(self.query_one("#body").scroll_end, animate=False)

    def action_back(self) -> None:
        self.dismiss()

    def action_scroll(self, method: str) -> None:
        getattr(self.query_one("#body"), method)(animate=False)
