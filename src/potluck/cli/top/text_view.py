"""Something to read, on the whole screen."""

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


def as_text(lines: Lines) -> Text:
    """Without anything that a terminal would obey."""
    return Text("\n").join(
        Text().join(Text(printable(cell.text), RICH_STYLES[cell.tone]) for cell in line)
        for line in lines
    )


class TextView(Screen[None]):
    """Goes back with Escape or q. What may grow is asked for again and again."""

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
            yield Static(as_text(self._lines), id="text")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#body").can_focus = False
        if self._again is not None:
            self._go_to_end()

    def grow(self, lines: Lines) -> None:
        """New lines; whoever reads the end goes on to the new one.

        They may come before this is drawn, or after it was left, and then nothing is there to grow.
        """
        if lines == self._lines:
            return
        self._lines = lines
        for body in self.query("#body"):
            is_at_end = body.scroll_y >= body.max_scroll_y - 1
            body.query_one("#text", Static).update(as_text(lines))
            if is_at_end:
                self._go_to_end()

    def look_again(self) -> None:
        if self._again is not None:
            self._again()

    def _go_to_end(self) -> None:
        self.call_after_refresh(self.query_one("#body").scroll_end, animate=False)

    def action_back(self) -> None:
        self.dismiss()

    def action_scroll(self, how: str) -> None:
        getattr(self.query_one("#body"), how)(animate=False)
