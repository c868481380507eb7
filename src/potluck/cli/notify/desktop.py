"""Shows desktop notices with the system's own program.

The text is passed as an argument or a variable, never as part of a script: task and node names are
untrusted.
"""

import html
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

from potluck.local.child_process import environment_without_secrets
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


def open_desktop_channel() -> "Channel":
    """Uses the first program that is installed; fails with a clear message if there is none."""
    for program, arguments in _PROGRAMS.items():
        path = shutil.which(program)
        if path is not None:
            return _channel(path, arguments)
    raise BadSettings(
        f"--notify desktop needs one of these programs: {', '.join(_PROGRAMS)}.",
        "Install libnotify (Debian/Ubuntu: apt install libnotify-bin), or use --notify bell.",
    )


def _notify_send(notice: "Notice") -> list[str]:
    # notify-send interprets mark-up in the body.
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


def _channel(program: str, arguments: Callable[["Notice"], list[str]]) -> "Channel":
    def show(notice: "Notice", _: "Screen") -> str:
        variables = {_TITLE: notice.title, _TEXT: notice.text}
        try:
            process = subprocess.run(
                [program, *arguments(notice)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # WSL passes only the variables named in WSLENV to Windows.
                env={**environment_without_secrets(), **variables, "WSLENV": f"{_TITLE}:{_TEXT}"},
                timeout=_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return "the desktop could not be notified"
        return "" if process.returncode == 0 else "the desktop could not be notified"

    return show
