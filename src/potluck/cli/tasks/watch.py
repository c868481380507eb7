"""A task from submit to its end, before somebody's eyes.

Ctrl-C asks in a terminal whether to detach or to cancel, and cancels elsewhere: nobody is left with
work that they believe ended. The task is followed in a thread of its own, so that a Ctrl-C never
meets a request half done, which would leave the connection pool locked for the next one.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from potluck.cli.notify.notifier import Notifier
from potluck.cli.results.collect_items import Gathering
from potluck.cli.results.fetch import brought, fetch_files, none_there, size_of, written_bytes
from potluck.cli.results.output import TaskOutput
from potluck.cli.tasks.items import MOST_SHOWN, finally_failed, show_failed
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.tasks.task_text import TONES, exit_status, stage, summary, where_shown
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.cli.terminal.units import show_seconds
from potluck.model.error import Conflict, PotluckError
from potluck.model.task import TaskRequest, TaskState
from potluck.wire.consumer import FollowedState, FollowEvent, ItemCounts, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Follow, Potluck


# What was longer ago says little about how it goes now.
_WINDOW_SECONDS = 60.0
_LEAST_SECONDS = 1.0


class Throughput:
    """Told of the counts as they come."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def told(self, counts: ItemCounts) -> str:
        """Such as ` · 13 a second · 6 s left`; nothing before anything is known."""
        now, done = self._clock(), counts.succeeded + counts.failed
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW_SECONDS and len(self._seen) > 2:
            self._seen.popleft()
        began, before = self._seen[0]
        if done <= before or now - began < _LEAST_SECONDS:
            return ""
        rate = (done - before) / (now - began)
        left = (counts.total - done) / rate
        return f" · {_rate(rate)} · {show_seconds(left)} left"


def _rate(a_second: float) -> str:
    if a_second >= 1:
        return f"{a_second:,.0f} a second" if a_second >= 10 else f"{a_second:.1f} a second"
    a_minute = a_second * 60
    return f"{a_minute:.1f} a minute" if a_minute >= 1 else f"{a_minute * 60:.1f} an hour"


_MARKS = {TaskState.SUCCEEDED: ("✓", Tone.GOOD), TaskState.CANCELLED: ("■", Tone.FAINT)}


def watch(
    potluck: "Potluck",
    request: TaskRequest,
    screen: Screen,
    directory: Path | None = None,
    notifier: Notifier | None = None,
    gathering: Gathering | None = None,
) -> int:
    """Submits, shows all that happens, and returns the exit status for the shell.

    What the task leaves is brought into the directory, if one is named, or gathered item by item.
    Whoever wants to be told of the end is told before that.
    """
    with LiveLine(screen) as line:
        line.say("submitting")
        watcher = TaskWatcher(potluck, _submitted(potluck, request, screen, line), screen, line)
        is_detached = not watcher.watch()
    if is_detached:
        return 0
    return watcher.finish(directory, notifier or Notifier(), gathering)


def watch_submitted(potluck: "Potluck", task: TaskView, screen: Screen, notifier: Notifier) -> int:
    """The same for one that is in the queue already."""
    with LiveLine(screen) as line:
        watcher = TaskWatcher(potluck, task, screen, line)
        is_detached = not watcher.watch()
    return 0 if is_detached else watcher.finish(None, notifier, None)


def _submitted(
    potluck: "Potluck", request: TaskRequest, screen: Screen, line: LiveLine
) -> TaskView:
    try:
        return potluck.tasks.submit(request)
    except KeyboardInterrupt:
        line.hide()
        if not screen.json:
            screen.err.line(
                "Interrupted while it was submitted; `potluck ps` shows whether it was."
            )
        raise


class Gap(NamedTuple):
    """The line to the server broke, and is being mended."""

    error: PotluckError


class TaskWatcher:
    """Follows one task through any number of interruptions."""

    def __init__(self, potluck: "Potluck", task: TaskView, screen: Screen, line: LiveLine):
        self._potluck = potluck
        self._task = task
        self._screen = screen
        self._line = line
        self._output = TaskOutput(screen)
        self._pace = Throughput()
        self._inbox: SimpleQueue[FollowEvent | Gap | Exception] = SimpleQueue()

    def watch(self) -> bool:
        """To its end; False when the person does not want to wait for that."""
        follow = self._potluck.tasks.follow(
            self._task.id, lambda error: self._inbox.put(Gap(error))
        )
        threading.Thread(target=self._listen, args=(follow,), daemon=True).start()
        while not self._task.state.is_final:
            try:
                self._take(self._inbox.get())
            except KeyboardInterrupt:
                if self._wants_to_detach():
                    self._detach()
                    return False
        self._line.hide()
        return True

    def _listen(self, follow: "Follow") -> None:
        try:
            for event in follow:
                self._inbox.put(event)
        except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
            self._inbox.put(error)

    def _take(self, event: FollowEvent | Gap | Exception) -> None:
        if isinstance(event, Exception):
            raise event
        if isinstance(event, Gap):
            self._line.say(f"{event.error.detail.rstrip('.')} Trying again …", Tone.WAITING)
            return
        if isinstance(event, FollowedState):
            self._task = event.task
            if self._screen.json:
                self._screen.emit({"event": "state", "task": event.task})
            if not event.task.state.is_final:  # the end is told by the summary
                self._line.say(self._stage(event.task), TONES[event.task.state])
            return
        self._line.hide()
        self._output.show(event.page)
        if self._output.at_line_start:
            self._line.unhide()

    def _stage(self, task: TaskView) -> str:
        """Of an array before somebody's eyes, with how fast it goes."""
        is_live = self._screen.err.is_live
        pace = self._pace.told(task.items) if is_live and task.items is not None else ""
        return f"{stage(task, is_live)}{pace}"

    def _wants_to_detach(self) -> bool:
        """Asks, if there is somebody to ask; otherwise, and at a second Ctrl-C, cancels."""
        self._line.hide()
        if self._screen.json or not (sys.stdin.isatty() and self._screen.err.is_terminal):
            self._cancel()
            return False
        answer = self._ask()
        if answer == "c":
            self._cancel()
        self._line.unhide()
        return answer == "d"

    def _ask(self) -> str:
        self._output.finish_line()
        question = "\r[d]etach and let it run, [c]ancel it (or Ctrl-C again), or Enter to go on? "
        try:
            self._screen.err.write(self._screen.err.paint(question, Tone.STRONG))
            return sys.stdin.readline().strip().lower()[:1]
        except KeyboardInterrupt:
            self._screen.err.line()
            return "c"

    def _cancel(self) -> None:
        try:
            self._task = self._potluck.tasks.cancel(self._task.id)
        except Conflict:  # it ended at the same moment; its end is what is shown
            self._task = self._potluck.tasks.get(self._task.id)

    def _detach(self) -> None:
        end = short_id(self._task.id)
        self._line.hide()
        self._screen.err.line(f"It goes on without you ({self._task.id}).")
        self._screen.err.line(f"{where_shown(self._task)}, `potluck cancel {end}` ends it.")

    def finish(
        self, directory: Path | None, notifier: Notifier, gathering: Gathering | None
    ) -> int:
        """The end in a line, what failed of an array, and the files."""
        if self._screen.json:
            notifier.tell(self._task, self._screen)
            if gathering is not None:
                gathering.gather(self._potluck, self._task, self._screen)
            elif directory is not None:
                found = fetch_files(self._potluck, self._task, directory, self._screen)
                self._screen.emit({"event": "files", **brought(found, directory)})
            self._screen.emit({"event": "finished", **msgspec.to_builtins(self._task)})
            return exit_status(self._task)
        self._output.finish_line()
        mark, tone = _MARKS.get(self._task.state, ("✗", Tone.BAD))
        pane = self._screen.err
        pane.line(f"{pane.paint(mark, tone)} {summary(self._task, datetime.now(UTC))}")
        notifier.tell(self._task, self._screen)
        self._tell_failed(pane, () if gathering is None else gathering.values)
        if gathering is not None:
            gathering.gather(self._potluck, self._task, self._screen)
        elif directory is not None:
            fetch_files(self._potluck, self._task, directory, self._screen)
        elif written_bytes(self._task):
            self._tell_files(pane)
        return exit_status(self._task)

    def _tell_files(self, pane: Pane) -> None:
        """What is there of them; a server that is away is no reason to fail."""
        again = f"`potluck result {short_id(self._task.id)} -o DIR`"
        try:
            found = self._potluck.files.of_task(self._task.id)
        except PotluckError:
            pane.prose(f"It left files; {again} brings them.", Tone.FAINT)
            return
        brings = f"It left {size_of(found)}; {again} brings them."
        pane.prose(brings if found.files else none_there(found, self._task), Tone.FAINT)

    def _tell_failed(self, pane: Pane, values: Sequence[str]) -> None:
        """Which items; here too a server that is away is no reason to fail."""
        counts = self._task.items
        if counts is None or not counts.failed:
            return
        try:
            failed = list(islice(finally_failed(self._potluck, self._task.id), MOST_SHOWN))
        except PotluckError as error:
            again = f"`potluck result {short_id(self._task.id)}` shows which items failed."
            pane.prose(f"{error.detail} {again}", Tone.FAINT)
            return
        show_failed(pane, failed, counts.failed, values)
