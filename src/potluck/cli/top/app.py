"""The full-screen application: a header, my tasks, the pool's devices, and key bindings.

A background thread takes the snapshots, so a slow or unreachable server never blocks a key. The
last snapshot stays until there is a newer one, and the header shows its age.
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

from potluck.cli.tasks.explain import format_explanation
from potluck.cli.terminal.screen import Tone, printable
from potluck.cli.terminal.table import RICH_STYLES, Cell
from potluck.cli.top.background_threads import (
    RequestDone,
    SnapshotFailed,
    SnapshotTaken,
    SnapshotThread,
    run_request,
)
from potluck.cli.top.details import Lines, TaskLogReader, device_details, task_details
from potluck.cli.top.prompt_line import FilterPrompt, PromptLine, YesNoPrompt
from potluck.cli.top.rows import Rows
from potluck.cli.top.snapshot import SnapshotReader, TopSnapshot
from potluck.cli.top.text import (
    DEVICE_COLUMNS,
    TASK_COLUMNS,
    DeviceOrder,
    TaskOrder,
    device_rows,
    head_lines,
    task_rows,
)
from potluck.cli.top.text_view import TextView
from potluck.model.error import PotluckError
from potluck.model.units import show_age
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


_KEYS = {
    "↑ ↓, j k": "previous or next row; also Page Up, Page Down, Home, End",
    "Tab": "the other table",
    "Enter": "details of the selected task or device",
    "l": "live output of the selected task",
    "e": "why the selected task waits, and what would help",
    "c": "cancel the selected task, after a confirmation",
    "s": "next sort order of the selected table",
    "/": "show only rows that match; Escape shows all",
    "r": "refresh now",
    "q, Ctrl-C": "quit; tasks continue",
}
HELP = [[Cell(f"{key:12}", Tone.STRONG), Cell(words)] for key, words in _KEYS.items()]


INTERRUPTED = 130
_NO_MATCH = "No rows match."
_Choice = TypeVar("_Choice", bound=StrEnum)


class Top(App[int]):
    """`potluck top`; returns the exit status."""

    ENABLE_COMMAND_PALETTE = False
    # Use the terminal's own colours and background.
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

    def __init__(
        self, potluck: "Potluck", first: TopSnapshot, reader: SnapshotReader, interval: float
    ):
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._potluck = potluck
        self._snapshot = first
        self._snapshots = SnapshotThread(reader, interval)
        self._trouble: PotluckError | None = None
        self._task_order, self._device_order = TaskOrder.AGE, DeviceOrder.NODE
        self._filter = ""
        self._prompt: PromptLine | None = None
        self._focus_before: Widget | None = None  # had the focus before the prompt
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
        self._snapshots.start(self)
        if sys.platform != "win32":
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.action_leave, 128 + number)

    def on_unmount(self) -> None:
        self._snapshots.stop()

    @property
    def _tasks(self) -> Rows:
        return self.screen_stack[0].query_one("#tasks", Rows)

    @property
    def _devices(self) -> Rows:
        return self.screen_stack[0].query_one("#devices", Rows)

    def _handle_exception(self, error: Exception) -> None:
        """Restores the terminal first; the command then reports the error, without a traceback."""
        self.failure = self.failure or error
        self.exit()

    # Snapshots

    def on_snapshot_taken(self, message: SnapshotTaken) -> None:
        self._snapshot, self._trouble = message.snapshot, None
        self._show()
        if isinstance(self.screen, TextView):
            self.screen.refresh_lines()

    def on_snapshot_failed(self, message: SnapshotFailed) -> None:
        self._trouble = message.error
        self._show_head()

    def on_resize(self) -> None:
        self.call_after_refresh(self._layout_tables)

    def _show(self) -> None:
        self._show_head()
        snapshot, words = self._snapshot, f" · /{self._filter}" if self._filter else ""
        more = " (the newest)" if snapshot.has_more_tasks else ""
        title = f"My tasks{more} · by {self._task_order}{words}"
        empty = "You have no tasks. `potluck run SCRIPT` starts one."
        tasks = task_rows(snapshot, self._task_order, self._filter)
        self._tasks.show(title, tasks, empty if not self._filter else _NO_MATCH)
        more = " (some)" if snapshot.has_more_devices else ""
        title = f"Devices{more} · by {self._device_order}{words}"
        empty = f"The pool is empty. Add a machine: `potluck provide {snapshot.url}`."
        devices = device_rows(snapshot, self._device_order, self._filter)
        self._devices.show(title, devices, empty if not self._filter else _NO_MATCH)
        self._layout_tables()

    def _layout_tables(self) -> None:
        """Devices get the lines they need, at most two fifths of the screen; tasks get the rest."""
        left = self.size.height - 3 - (self._trouble is not None)
        lines = min(self._devices.wanted_lines, max(3, left * 2 // 5))
        self._devices.display = left >= 8
        self._devices.styles.height = lines
        self._tasks.styles.height = "1fr"

    def _show_head(self) -> None:
        base = self.screen_stack[0]
        lines = [_join_cells(line) for line in head_lines(self._snapshot)]
        base.query_one("#head", Static).update(Text("\n").join(lines))
        trouble = base.query_one("#trouble", Static)
        trouble.display = self._trouble is not None
        if self._trouble is not None:
            age = show_age(self._snapshot.at, datetime.now(UTC))
            text = f"{age} old, retrying. {self._trouble.detail}"
            trouble.update(Text(text, RICH_STYLES[Tone.BAD], no_wrap=True, overflow="ellipsis"))

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disables table actions while a text view or a prompt is open."""
        if self._prompt is not None:
            return (action, parameters) == ("leave", (INTERRUPTED,))
        is_reading = bool(self.screen_stack) and isinstance(self.screen_stack[-1], TextView)
        return not is_reading or action in ("leave", "back", "scroll")

    def action_leave(self, status: int) -> None:
        self.exit(status)

    def action_look(self) -> None:
        self._snapshots.refresh()

    def action_sort(self) -> None:
        if self.focused is self._devices:
            self._device_order = _next_choice(self._device_order)
        else:
            self._task_order = _next_choice(self._task_order)
        self._show()

    def action_filter(self) -> None:
        self._ask(FilterPrompt(self._filter, self._apply_filter))

    def _apply_filter(self, words: str) -> None:
        self._filter = words.strip()
        self._show()

    def action_forget_filter(self) -> None:
        self._apply_filter("")

    def action_help(self) -> None:
        self.push_screen(TextView("Keys", HELP))

    def action_details(self) -> None:
        if self.focused is self._devices:
            devices = [
                device for device in self._snapshot.devices if device.id == self._devices.chosen
            ]
            if devices:
                self.push_screen(TextView(devices[0].node_name, device_details(devices[0])))
        elif (task := self._chosen_task()) is not None:
            self.push_screen(TextView(task.name, task_details(task, datetime.now(UTC))))

    def action_explain(self) -> None:
        if (task := self._chosen_task()) is not None:
            run_request(
                self,
                lambda: format_explanation(self._potluck.tasks.explain(task.id), datetime.now(UTC)),
                lambda lines: self._open_view(TextView(task.name, lines)),
                self._show_error,
            )

    def action_logs(self) -> None:
        if (task := self._chosen_task()) is not None:
            log = TaskLogReader(self._potluck, task.id)
            run_request(
                self, log.lines, lambda lines: self._show_log(task, log, lines), self._show_error
            )

    def _show_log(self, task: TaskView, log: TaskLogReader, lines: Lines) -> None:
        is_pending = False

        def request() -> None:
            nonlocal is_pending
            if not is_pending:  # at most one request at a time
                is_pending = True
                run_request(self, log.lines, grow, failed)

        def grow(lines: Lines) -> None:
            nonlocal is_pending
            is_pending = False
            view.grow(lines)

        def failed(_: PotluckError) -> None:  # the header shows the failure
            nonlocal is_pending
            is_pending = False

        view = TextView(f"{task.name}: output", lines, request)
        self._open_view(view)

    def _open_view(self, view: TextView) -> None:
        """Drops a response if another text view or a prompt is open by now."""
        if self._prompt is None and not isinstance(self.screen, TextView):
            self.push_screen(view)

    def action_cancel(self) -> None:
        task = self._chosen_task()
        if task is None or task.state.is_final:
            return
        cancel = self._potluck.tasks.cancel

        def send() -> None:
            run_request(
                self, lambda: cancel(task.id), lambda _: self.action_look(), self._show_error
            )

        self._ask(YesNoPrompt(f"Cancel {task.name} ({task.id})?", send))

    def _ask(self, line: PromptLine) -> None:
        """Sends all keys to the prompt from now on, including those already queued."""
        self._focus_before = self.screen.focused
        self.screen.set_focus(None)
        self._prompt = line
        self._show_line()

    def on_key(self, event: events.Key) -> None:
        if self._prompt is None:
            return
        event.stop()
        event.prevent_default()  # else the key that closes the prompt would also trigger its action
        if self._prompt.press(event.key, event.character if event.is_printable else None):
            self._prompt = None
            self.screen.set_focus(self._focus_before)
        self._show_line()

    def _show_line(self) -> None:
        shown = self.screen_stack[0].query_one("#line", Static)
        shown.display = self._prompt is not None
        if self._prompt is not None:
            shown.update(
                Text(printable(self._prompt.text), "bold", no_wrap=True, overflow="ellipsis")
            )

    def _chosen_task(self) -> TaskView | None:
        key = self._tasks.chosen
        return next((task for task in self._snapshot.tasks if task.id == key), None)

    def _show_error(self, error: PotluckError) -> None:
        lines = [[Cell(error.detail, Tone.BAD)], [Cell(error.hint)]]
        self.push_screen(TextView("Request failed", lines))

    def on_request_done(self, message: RequestDone) -> None:
        message.act()


def _next_choice(current: _Choice) -> _Choice:
    choices = list(type(current))
    return choices[(choices.index(current) + 1) % len(choices)]


def _join_cells(cells: list[Cell]) -> Text:
    parts = [Text(cell.text, RICH_STYLES[cell.tone]) for cell in cells]
    line = Text(" · ").join(parts)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
