"""Tells that a task has ended, by whatever the person asked for.

All of it happens on the person's own machine, while the command that watches the task runs: the
server never learns of it. What was asked for is checked before there is anything to tell. A
notice that can not be delivered is a remark and no failure: the task has ended all the same.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from potluck.cli.notify.apprise import sent_to
from potluck.cli.notify.desktop import desktop
from potluck.cli.tasks.task_text import summary
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import InvalidInput
from potluck.model.task import TaskState
from potluck.wire.consumer import TaskView

NotifyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="HOW",
        envvar="POTLUCK_NOTIFY",
        show_default=False,
        help="At the task's end: bell, desktop, or an apprise URL, which this machine sends to;"
        " repeatable; none is silent.",
    ),
]


SILENT = "none"


class Notice(Struct, frozen=True):
    """What there is to tell, without anything that a terminal would obey."""

    title: str
    text: str
    is_good: bool


# Answers why it could not be told, or nothing.
Channel = Callable[[Notice, Screen], str]


class Notifier:
    """By every channel that was asked for."""

    def __init__(self, channels: Sequence[Channel] = ()):
        self._channels = channels

    @property
    def is_silent(self) -> bool:
        return not self._channels

    def tell(self, task: TaskView, screen: Screen) -> None:
        if self.is_silent:
            return
        notice = Notice(
            f"Potluck: {printable(task.name)} {task.state}",
            summary(task, datetime.now(UTC)),
            task.state is TaskState.SUCCEEDED,
        )
        for tell in self._channels:
            trouble = tell(notice, screen)
            if trouble and not screen.json:
                screen.err.prose(f"potluck: {trouble}", Tone.FAINT)


def notifier(asked: Sequence[str] | None) -> Notifier:
    """For what `--notify` says, all of it found to be possible."""
    wanted = list(dict.fromkeys(asked or ()))
    if SILENT in wanted:
        return Notifier()
    return Notifier([_channel(each) for each in wanted])


def _channel(how: str) -> Channel:
    if how == "bell":
        return ring
    if how == "desktop":
        return desktop()
    if "://" in how:
        return sent_to(how)
    # Not repeated: it may be a secret with a mistake in it.
    raise InvalidInput(
        "--notify does not know what it was told.",
        "Say bell, desktop, none, or an apprise URL such as ntfy://TOPIC.",
    )


_BELL = "\a"


def ring(_: "Notice", screen: "Screen") -> str:
    """In the terminal that the person sits at, also when the output goes elsewhere."""
    if screen.err.is_terminal:
        screen.err.write(_BELL)
        return ""
    with suppress(OSError), Path("/dev/tty").open("w", encoding="ascii") as terminal:
        terminal.write(_BELL)
    return ""
