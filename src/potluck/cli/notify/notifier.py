"""`--notify`: notices at the end of a task, for every command that waits for it.

The command that watches the task sends the notices from the user's machine; the server does not
know about them. Channels are checked before the task starts. A notice that cannot be delivered is a
warning, not a failure: the task has ended all the same.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from potluck.cli.notify.desktop import open_desktop_channel
from potluck.cli.tasks.task_text import summarize_task
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.local.apprise_service import open_apprise_service
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
        help="Notify at the task's end: bell, desktop, an apprise URL (sent from this machine), or"
        " none; repeatable.",
    ),
]
SILENT = "none"


class Notice(Struct, frozen=True):
    """The text of a notice, without control characters."""

    title: str
    text: str
    is_good: bool


# Returns why the notice could not be delivered, or an empty text.
Channel = Callable[[Notice, Screen], str]


class Notifier:
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
            summarize_task(task, datetime.now(UTC)),
            task.state is TaskState.SUCCEEDED,
        )
        self.send(notice, screen)

    def send(self, notice: Notice, screen: Screen) -> None:
        for send in self._channels:
            failure = send(notice, screen)
            if failure and not screen.json:
                screen.err.prose(f"potluck: {failure}", Tone.FAINT)


def build_notifier(values: Sequence[str] | None) -> Notifier:
    """Opens the channels of `--notify`; fails if one is not available."""
    names = list(dict.fromkeys(values or ()))
    if SILENT in names:
        return Notifier()
    return Notifier([_channel(name) for name in names])


def _channel(name: str) -> Channel:
    if name == "bell":
        return ring_bell
    if name == "desktop":
        return open_desktop_channel()
    if "://" in name:
        return _open_apprise_channel(name)
    # The value is not repeated: it may be a mistyped secret.
    raise InvalidInput(
        "--notify has an unknown value.",
        "Use bell, desktop, none, or an apprise URL such as ntfy://TOPIC.",
    )


def _open_apprise_channel(url: str) -> Channel:
    send_notice = open_apprise_service(url, "--notify")

    def send(notice: Notice, _: Screen) -> str:
        is_sent = send_notice(notice.title, notice.text, notice.is_good)
        return "" if is_sent else "the notice to your --notify URL could not be sent"

    return send


_BELL = "\a"


def ring_bell(_: "Notice", screen: "Screen") -> str:
    """Rings the controlling terminal even if stderr is redirected."""
    if screen.err.is_terminal:
        screen.err.write_bytes(_BELL.encode())
        return ""
    with suppress(OSError), Path("/dev/tty").open("w", encoding="ascii") as terminal:
        terminal.write(_BELL)
    return ""
