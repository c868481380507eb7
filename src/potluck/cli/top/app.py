"""The whole screen: a head, my tasks, the pool's devices, and keys.

Looks are taken by a thread of its own, so that a server that is slow or away never holds up a key;
what was seen last stays until there is something newer, and the head says how old it is.
"""

import asyncio
import signal
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Footer, Static

from potluck.cli.tasks.explain import explained
from potluck.cli.terminal.screen import Tone, printable
from potluck.cli.terminal.table import RICH_STYLES, Cell
from potluck.cli.terminal.units import show_age
from potluck.cli.top.background_threads import (
    Looking,
    Missed,
    RequestDone,
    SnapshotTaken,
    ask,
)
from potluck.cli.top.details import Lines, Written, device_details, task_details
from potluck.cli.top.prompt_line import PromptLine, Typing, YesNoQuestion
from potluck.cli.top.rows import Rows
from potluck.cli.top.snapshot import Looker, TopSnapshot
from potluck.cli.top.text import (
    DEVICE_COLUMNS,
    TASK_COLUMNS,
    DeviceOrder,
    TaskOrder,
    device_rows,
    head,
    task_rows,
)
from potluck.cli.top.text_view import TextView
from potluck.model.error import PotluckError
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


_KEYS = {
    "↑ ↓, j k": "the row above, the row below; Page Up, Page Down, Home and End go further",
    "Tab": "the other table",
    "Enter": "all about the chosen task or device",
    "l": "what the chosen task writes, as it grows",
    "e": "why the chosen task waits, and what would help",
    "c": "cancel the chosen task; it asks first",
    "s": "another order of the chosen table",
    "/": "only rows with these words; Escape shows all again",
    "r": "look now",
    "q, Ctrl-C": "leave; tasks go on",
}
HELP = [[Cell(f"{key:12}", Tone.STRONG), Cell(words)] for key, words in _KEYS.items()]


INTERRUPTED = 130
_NOTHING_FITS = "None has these words."
_Choice = TypeVar("_Choice", bound=StrEnum)


class Top(App[int]):
    """`potluck top`; its result is the exit status."""

    ENABLE_COMMAND_PALETTE = False
    # The terminal's own colours and background, whichever they are.
    CSS = """
    Screen { background: ansi_default; layout: vertical; }
    #head { height: 2; }
    #trouble { height: 1; display: none; }
    #line { display: none; height: 1; }
    #body { height: 1fr; }
    #title { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave(0)", "Quit"),
        Binding("ctrl+c", f"leave({INTERRUPTED})", "Quit", show=False, priority=True),
        Binding("c", "cancel", "Cancel"),
        Binding("l", "logs", "Logs"),
        Binding("e", "explain", "Explain"),
        Binding("enter", "details", "Details"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("r", "look", "Refresh", show=False),
        Binding("tab", "app.focus_next", "Other table", show=False),
        Binding("escape", "forget_filter", "No filter", show=False),
        Binding("question_mark", "help", "Help", key_display="?"),
    ]

    def __init__(self, potluck: "Potluck", first: TopSnapshot, looker: Looker, interval: float):
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._potluck = potluck
        self._picture = first
        self._looking = Looking(looker, interval)
        self._trouble: PotluckError | None = None
        self._task_order, self._device_order = TaskOrder.AGE, DeviceOrder.NODE
        self._wanted = ""
        self._line: PromptLine | None = None
        self._before: Widget | None = None  # that had the keys before the line
        self.failure: Exception | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="trouble")
        yield Rows(TASK_COLUMNS, "tasks")
        yield Rows(DEVICE_COLUMNS, "devices")
        yield Static(id="line")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._tasks.focus()
        self._show()
        self.set_interval(1.0, self._show_head)
        self._looking.begin(self)
        if sys.platform != "win32":
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.action_leave, 128 + number)

    def on_unmount(self) -> None:
        self._looking.end()

    @property
    def _tasks(self) -> Rows:
        return self.screen_stack[0].query_one("#tasks", Rows)

    @property
    def _devices(self) -> Rows:
        return self.screen_stack[0].query_one("#devices", Rows)

    def _handle_exception(self, error: Exception) -> None:
        """The terminal first; then it is told as every command tells it, without a traceback."""
        self.failure = self.failure or error
        self.exit()

    # What is seen

    def on_seen(self, message: SnapshotTaken) -> None:
        self._picture, self._trouble = message.picture, None
        self._show()
        if isinstance(self.screen, TextView):
            self.screen.look_again()

    def on_missed(self, message: Missed) -> None:
        self._trouble = message.error
        self._show_head()

    def on_resize(self) -> None:
        self.call_after_refresh(self._share_room)

    def _show(self) -> None:
        self._show_head()
        picture, words = self._picture, f" · /{self._wanted}" if self._wanted else ""
        more = " (the newest)" if picture.has_more_tasks else ""
        title = f"My tasks{more} · by {self._task_order}{words}"
        empty = "You have no tasks. `potluck run SCRIPT` starts one."
        tasks = task_rows(picture, self._task_order, self._wanted)
        self._tasks.show(title, tasks, empty if not self._wanted else _NOTHING_FITS)
        more = " (some)" if picture.has_more_devices else ""
        title = f"Devices{more} · by {self._device_order}{words}"
        empty = f"The pool is empty. `potluck provide {picture.url}` brings a machine."
        devices = device_rows(picture, self._device_order, self._wanted)
        self._devices.show(title, devices, empty if not self._wanted else _NOTHING_FITS)
        self._share_room()

    def _share_room(self) -> None:
        """Devices get what they need, at most two fifths of the screen; tasks have the rest."""
        left = self.size.height - 3 - (self._trouble is not None)
        lines = min(self._devices.wanted_lines, max(3, left * 2 // 5))
        self._devices.display = left >= 8
        self._devices.styles.height = lines
        self._tasks.styles.height = "1fr"

    def _show_head(self) -> None:
        base = self.screen_stack[0]
        lines = [_joined(line) for line in head(self._picture)]
        base.query_one("#head", Static).update(Text("\n").join(lines))
        trouble = base.query_one("#trouble", Static)
        trouble.display = self._trouble is not None
        if self._trouble is not None:
            age = show_age(self._picture.at, datetime.now(UTC))
            said = f"{age} old, trying again. {self._trouble.detail}"
            trouble.update(Text(said, RICH_STYLES[Tone.BAD], no_wrap=True, overflow="ellipsis"))

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What is about the tables is not for whoever reads something else, or is asked."""
        if self._line is not None:
            return (action, parameters) == ("leave", (INTERRUPTED,))
        is_reading = bool(self.screen_stack) and isinstance(self.screen_stack[-1], TextView)
        return not is_reading or action in ("leave", "back", "scroll")

    def action_leave(self, status: int) -> None:
        self.exit(status)

    def action_look(self) -> None:
        self._looking.look_now()

    def action_sort(self) -> None:
        if self.focused is self._devices:
            self._device_order = _next(self._device_order)
        else:
            self._task_order = _next(self._task_order)
        self._show()

    def action_filter(self) -> None:
        self._ask(Typing(self._wanted, self._look_for))

    def _look_for(self, words: str) -> None:
        self._wanted = words.strip()
        self._show()

    def action_forget_filter(self) -> None:
        self._look_for("")

    def action_help(self) -> None:
        self.push_screen(TextView("Keys", HELP))

    def action_details(self) -> None:
        if self.focused is self._devices:
            found = [each for each in self._picture.devices if each.id == self._devices.chosen]
            if found:
                self.push_screen(TextView(found[0].node_name, device_details(found[0])))
        elif (task := self._chosen_task()) is not None:
            self.push_screen(TextView(task.name, task_details(task, datetime.now(UTC))))

    def action_explain(self) -> None:
        if (task := self._chosen_task()) is not None:
            ask(
                self,
                lambda: explained(self._potluck.tasks.explain(task.id), datetime.now(UTC)),
                lambda lines: self._read(TextView(task.name, lines)),
                self._tell,
            )

    def action_logs(self) -> None:
        if (task := self._chosen_task()) is not None:
            written = Written(self._potluck, task.id)
            ask(
                self,
                written.lines,
                lambda lines: self._show_log(task, written, lines),
                self._tell,
            )

    def _show_log(self, task: TaskView, written: Written, lines: Lines) -> None:
        is_asked = False

        def again() -> None:
            nonlocal is_asked
            if not is_asked:  # a log that comes slowly is waited for, not asked for once more
                is_asked = True
                ask(self, written.lines, grow, missed)

        def grow(lines: Lines) -> None:
            nonlocal is_asked
            is_asked = False
            reading.grow(lines)

        def missed(_: PotluckError) -> None:  # that there is no answer, the head says
            nonlocal is_asked
            is_asked = False

        reading = TextView(f"{task.name}: what it wrote", lines, again)
        self._read(reading)

    def _read(self, reading: TextView) -> None:
        """An answer that comes when something else is read or asked by now comes too late."""
        if self._line is None and not isinstance(self.screen, TextView):
            self.push_screen(reading)

    def action_cancel(self) -> None:
        task = self._chosen_task()
        if task is None or task.state.is_final:
            return
        cancel = self._potluck.tasks.cancel

        def certainly() -> None:
            ask(self, lambda: cancel(task.id), lambda _: self.action_look(), self._tell)

        self._ask(YesNoQuestion(f"Cancel {task.name} ({task.id})?", certainly))

    def _ask(self, line: PromptLine) -> None:
        """What is pressed from now on is for the last line, also what came in the same moment."""
        self._before = self.screen.focused
        self.screen.set_focus(None)
        self._line = line
        self._show_line()

    def on_key(self, event: events.Key) -> None:
        if self._line is None:
            return
        event.stop()
        event.prevent_default()  # else the key that ends the line would do what it does elsewhere
        if self._line.press(event.key, event.character if event.is_printable else None):
            self._line = None
            self.screen.set_focus(self._before)
        self._show_line()

    def _show_line(self) -> None:
        shown = self.screen_stack[0].query_one("#line", Static)
        shown.display = self._line is not None
        if self._line is not None:
            shown.update(
                Text(printable(self._line.text), "bold", no_wrap=True, overflow="ellipsis")
            )

    def _chosen_task(self) -> TaskView | None:
        key = self._tasks.chosen
        return next((each for each in self._picture.tasks if each.id == key), None)

    def _tell(self, error: PotluckError) -> None:
        """Of what somebody asked for, that it was not to be had."""
        lines = [[Cell(error.detail, Tone.BAD)], [Cell(error.hint)]]
        self.push_screen(TextView("That did not work", lines))

    def on_answered(self, message: RequestDone) -> None:
        message.act()


def _next(now: _Choice) -> _Choice:
    known = list(type(now))
    return known[(known.index(now) + 1) % len(known)]


def _joined(cells: list[Cell]) -> Text:
    parts = [Text(cell.text, RICH_STYLES[cell.tone]) for cell in cells]
    line = Text(" · ").join(parts)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
