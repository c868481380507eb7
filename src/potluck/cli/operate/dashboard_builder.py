"""Builds the dashboard while `up` runs from a checkout.

It begins when the platform is up, with low priority, and nothing waits for it: the server takes the
build over by itself. An installed package contains the dashboard, so that nothing is built there.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import msgspec

import potluck
from potluck.cli.operate.child_program import Inbox, ProgramLine
from potluck.local.child_process import end_with_parent, environment_without_secrets

DASHBOARD: Final = "dashboard"
_PROGRAM: Final = Path("scripts", "web.py")
_STOP_SECONDS: Final = 5.0
_OTHER_FOLDER: Final = "POTLUCK_DASHBOARD_DIRECTORY"


class DashboardBuilder:
    """Its events go to the inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Does nothing without the sources, or if the server serves another folder."""
        root = Path(potluck.__file__).parents[2]
        is_checkout = (root / _PROGRAM).is_file() and (root / "web" / "package.json").is_file()
        if not is_checkout or os.environ.get(_OTHER_FOLDER):
            return
        self._process = subprocess.Popen(
            [sys.executable, "-m", "scripts.web", "--json", "--background"],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_without_secrets(),
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def stop(self) -> None:
        """The next `up` builds it again; until then the last build is served."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._inbox.put(ProgramLine(DASHBOARD, _read(line)))


def _read(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])


def sentence(values: dict[str, Any], url: str) -> str:
    """What to show for an event; nothing if the dashboard was there all along."""
    match values.get("event"):
        case "building":
            return "Building the dashboard …"
        case "built":
            return f"The dashboard is ready: {url}"
        case "unavailable":
            return str(values.get("detail", ""))
        case _:
            return ""
