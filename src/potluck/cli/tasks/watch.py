"""Watches a task from its submission to its end.

In a terminal Ctrl-C asks whether to detach or to cancel; elsewhere it cancels, so that no task runs
on unnoticed. A separate thread follows the task: a Ctrl-C in the middle of a request would leave
the connection pool locked for the next one.
"""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from potluck.cli.notify.notifier import Notifier
from potluck.cli.results.collect_items import ItemCollector
from potluck.cli.results.failure import explain_failed_items, explain_failure
from potluck.cli.results.fetch import (
    OutputDirectory,
    describe_no_files,
    describe_size,
    fetch_files,
    written_bytes,
)
from potluck.cli.results.output import TaskOutput
from potluck.cli.tasks.items import MOST_SHOWN, iter_failed_items, show_failed
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.tasks.task_text import (
    TONES,
    describe_stage,
    exit_status,
    suggest_next_command,
    summarize_task,
)
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.model.error import Conflict, PotluckError
from potluck.model.task import TaskRequest, TaskState
from potluck.model.terms import TaskKind
from potluck.model.units import show_seconds
from potluck.wire.consumer import FollowedState, FollowEvent, ItemCounts, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Follow, Potluck


# Older counts say little about the current rate.
_WINDOW_SECONDS = 60.0
_LEAST_SECONDS = 1.0


class Throughput:
    """The recent rate of an array's items, and the time that the rest needs at this rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, counts: ItemCounts) -> str:
        """Such as ` · 13 a second · 6 s left`; empty while the rate is unknown."""
        now, done = self._clock(), counts.done
        self._samples.append((now, done))
        while now - self._samples[0][0] > _WINDOW_SECONDS and len(self._samples) > 2:
            self._samples.popleft()
        began, before = self._samples[0]
        if done <= before or now - began < _LEAST_SECONDS:
            return ""
        rate = (done - before) / (now - began)
        left = (counts.total - done) / rate
        return f" · {_show_rate(rate)} · {show_seconds(left)} left"


def _show_rate(per_second: float) -> str:
    if per_second >= 1:
        return f"{per_second:,.0f} a second" if per_second >= 10 else f"{per_second:.1f} a second"
    per_minute = per_second * 60
    return f"{per_minute:.1f} a minute" if per_minute >= 1 else f"{per_minute * 60:.1f} an hour"


_MARKS = {TaskState.SUCCEEDED: ("✓", Tone.GOOD), TaskState.CANCELLED: ("■", Tone.FAINT)}


def watch(
    potluck: "Potluck",
    request: TaskRequest,
    screen: Screen,
    output: OutputDirectory | None = None,
    notifier: Notifier | None = None,
    collector: ItemCollector | None = None,
) -> int:
    """Submits and follows a task, and returns the exit status.

    After the notification, downloads the task's files into the directory, or collects the items'.
    """
    with LiveLine(screen) as line:
        line.say("submitting")
        watcher = TaskWatcher(potluck, _submit(potluck, request, screen, line), screen, line)
        has_ended = watcher.watch()
    return watcher.finish(output, notifier or Notifier(), collector) if has_ended else 0


def watch_submitted(potluck: "Potluck", task: TaskView, screen: Screen, notifier: Notifier) -> int:
    """Watches a task that is already in the queue."""
    with LiveLine(screen) as line:
        watcher = TaskWatcher(potluck, task, screen, line)
        has_ended = watcher.watch()
    return watcher.finish(None, notifier, None) if has_ended else 0


def _submit(potluck: "Potluck", request: TaskRequest, screen: Screen, line: LiveLine) -> TaskView:
    try:
        return potluck.tasks.submit(request)
    except KeyboardInterrupt:
        line.hide()
        if not screen.json:
            screen.err.line(
                "Interrupted during submission; `potluck ps` shows whether the task exists."
            )
        raise


class Gap(NamedTuple):
    """The connection to the server broke and is being retried."""

    error: PotluckError


class TaskWatcher:
    """Follows one task through any number of interruptions."""

    def __init__(self, potluck: "Potluck", task: TaskView, screen: Screen, line: LiveLine):
        self._potluck = potluck
        self._task = task
        self._screen = screen
        self._line = line
        self._output = TaskOutput(screen)
        self._throughput = Throughput()
        self._inbox: SimpleQueue[FollowEvent | Gap | Exception] = SimpleQueue()

    def watch(self) -> bool:
        """Returns True at the task's end, False if the user detached."""
        follow = self._potluck.tasks.follow(
            self._task.id, lambda error: self._inbox.put(Gap(error))
        )
        threading.Thread(target=self._listen, args=(follow,), daemon=True).start()
        try:
            return self._take_all()
        finally:
            self._output.end()

    def _take_all(self) -> bool:
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
        except Exception as error:  # noqa: BLE001 - raised again in the main thread
            self._inbox.put(error)

    def _take(self, event: FollowEvent | Gap | Exception) -> None:
        if isinstance(event, Exception):
            raise event
        if isinstance(event, Gap):
            self._line.say(f"{event.error.detail} Retrying …", Tone.WAITING)
            return
        if isinstance(event, FollowedState):
            self._task = event.task
            if self._screen.json:
                self._screen.emit({"event": "state", "task": event.task})
            if not event.task.state.is_final:  # `finish` shows the end
                self._line.say(self._stage(event.task), TONES[event.task.state])
            return
        self._line.hide()
        self._output.show(event.page)
        if self._output.at_line_start:
            self._output.end()
            self._line.unhide()

    def _stage(self, task: TaskView) -> str:
        """In a terminal, with the throughput of an array."""
        is_live = self._screen.err.is_live
        rate = self._throughput.update(task.items) if is_live and task.items is not None else ""
        return f"{describe_stage(task, is_live)}{rate}"

    def _wants_to_detach(self) -> bool:
        """Asks in a terminal; elsewhere, and at a second Ctrl-C, cancels the task."""
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
        question = "\r[d]etach and let it run, [c]ancel it (or Ctrl-C again), Enter to continue? "
        try:
            self._screen.err.write(self._screen.err.paint(question, Tone.STRONG))
            return sys.stdin.readline().strip().lower()[:1]
        except KeyboardInterrupt:
            self._screen.err.line()
            return "c"

    def _cancel(self) -> None:
        try:
            self._task = self._potluck.tasks.cancel(self._task.id)
        except Conflict:  # it has just ended
            self._task = self._potluck.tasks.get(self._task.id)

    def _detach(self) -> None:
        end = short_id(self._task.id)
        self._line.hide()
        self._screen.err.line(f"It continues in the background ({self._task.id}).")
        self._screen.err.line(
            f"{suggest_next_command(self._task)}, `potluck cancel {end}` cancels it."
        )

    def finish(
        self, output: OutputDirectory | None, notifier: Notifier, collector: ItemCollector | None
    ) -> int:
        """Shows the end in one line, the failed items of an array, and the files."""
        if self._screen.json:
            notifier.tell(self._task, self._screen)
            if collector is not None:
                collector.collect(self._potluck, self._task, self._screen)
            elif output is not None:
                files = fetch_files(self._potluck, self._task, output, self._screen)
                self._screen.emit({"event": "files", **files.as_json()})
            failure = explain_failure(self._task).as_json()
            self._screen.emit({"event": "finished", **msgspec.to_builtins(self._task), **failure})
            return exit_status(self._task)
        self._output.finish_line()
        mark, tone = _MARKS.get(self._task.state, ("✗", Tone.BAD))
        pane = self._screen.err
        pane.line(f"{pane.paint(mark, tone)} {summarize_task(self._task, datetime.now(UTC))}")
        explain_failure(self._task).show_hint(pane)  # its output has just been shown
        notifier.tell(self._task, self._screen)
        self._tell_failed(pane, () if collector is None else collector.values)
        if collector is not None:
            collector.collect(self._potluck, self._task, self._screen)
        elif output is not None:
            fetch_files(self._potluck, self._task, output, self._screen)
        elif written_bytes(self._task):
            self._tell_files(pane)
        if collector is None:
            self._tell_items_output(pane)
        return exit_status(self._task)

    def _tell_files(self, pane: Pane) -> None:
        """Names the files and how to download them; an unreachable server is no failure."""
        command = f"`potluck result {short_id(self._task.id)} -o DIR`"
        try:
            files = self._potluck.files.of_task(self._task.id)
        except PotluckError:
            pane.prose(f"It left files; {command} downloads them.", Tone.FAINT)
            return
        left = f"It left {describe_size(files)}; {command} downloads them."
        pane.prose(left if files.files else describe_no_files(files, self._task), Tone.FAINT)

    def _tell_items_output(self, pane: Pane) -> None:
        """What the items of an array write is not shown while they run side by side."""
        if self._task.items is not None and self._task.kind != TaskKind.FUNCTION:
            end = short_id(self._task.id)
            pane.prose(
                f"`potluck result {end}` shows what its items wrote; --item N shows one of them.",
                Tone.FAINT,
            )

    def _tell_failed(self, pane: Pane, values: Sequence[str]) -> None:
        """Lists the failed items of an array; an unreachable server is no failure."""
        counts = self._task.items
        if counts is None or not counts.failed:
            return
        try:
            failed = list(islice(iter_failed_items(self._potluck, self._task.id), MOST_SHOWN))
        except PotluckError as error:
            hint = f"`potluck result {short_id(self._task.id)}` shows which items failed."
            pane.prose(f"{error.detail} {hint}", Tone.FAINT)
            return
        show_failed(pane, failed, counts.failed, values)
        explain_failed_items(pane, self._task.id, failed)
