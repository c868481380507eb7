"""A notice on the desktop, by the program that the system has for it.

What it says is an argument or a variable, never a part of a script: task and node names are other
people's words.
"""

import html
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from potluck.local.child_process import without_secrets
from potluck.model.error import BadSettings

if TYPE_CHECKING:
    from potluck.cli.notify.notifier import Channel, Notice
    from potluck.cli.terminal.screen import Screen

_SECONDS = 10.0
_TITLE, _TEXT = "POTLUCK_NOTICE_TITLE", "POTLUCK_NOTICE_TEXT"

_APPLE = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
_TOAST = (
    "$null = [Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications,"
    " ContentType = WindowsRuntime];"
    " $toast = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent(1);"
    " $lines = $toast.GetElementsByTagName('text');"
    f" $null = $lines.Item(0).AppendChild($toast.CreateTextNode($env:{_TITLE}));"
    f" $null = $lines.Item(1).AppendChild($toast.CreateTextNode($env:{_TEXT}));"
    " [Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier('Potluck')"
    ".Show([Windows.UI.Notifications.ToastNotification]::new($toast))"
)


def desktop() -> "Channel":
    """By the first program that is here; a clear word if there is none."""
    for program, arguments in _PROGRAMS.items():
        found = shutil.which(program)
        if found is not None:
            return _by(found, arguments)
    raise BadSettings(
        f"--notify desktop finds none of the programs that show notices: {', '.join(_PROGRAMS)}.",
        "Install libnotify (Debian/Ubuntu: apt install libnotify-bin), or say --notify bell.",
    )


def _notify_send(notice: "Notice") -> list[str]:
    # What stands below the title may have mark-up.
    return ["--app-name=Potluck", "--", notice.title, html.escape(notice.text, quote=False)]


def _osascript(notice: "Notice") -> list[str]:
    script = [word for line in _APPLE for word in ("-e", line)]
    return [*script, notice.title, notice.text]


def _powershell(_: "Notice") -> list[str]:
    return ["-NoProfile", "-NonInteractive", "-Command", _TOAST]


_PROGRAMS: dict[str, Callable[["Notice"], list[str]]] = {
    "notify-send": _notify_send,
    "osascript": _osascript,
    "powershell.exe": _powershell,
}


def _by(program: str, arguments: Callable[["Notice"], list[str]]) -> "Channel":
    def show(notice: "Notice", _: "Screen") -> str:
        told = {_TITLE: notice.title, _TEXT: notice.text}
        try:
            ended = subprocess.run(
                [program, *arguments(notice)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # From the Linux side of Windows a variable goes over only if it is named.
                env={**without_secrets(), **told, "WSLENV": f"{_TITLE}:{_TEXT}"},
                timeout=_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return "the desktop could not be notified"
        return "" if ended.returncode == 0 else "the desktop could not be notified"

    return show
