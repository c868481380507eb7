"""The provider as a launch agent of macOS."""

import os
import plistlib
from pathlib import Path
from typing import Any

from potluck.provider.service.service import Service, ServiceState, must, succeeds, url_of

LABEL = "potluck.provider"


def plist(service: Service) -> dict[str, Any]:
    """The content of the file. Restarts only after a failure, as with systemd."""
    return {
        "Label": LABEL,
        "ProgramArguments": list(service.command),
        # An agent's PATH is shorter than that of the user's shell.
        "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath), **service.variables},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": service.restart_seconds,
        "ExitTimeOut": int(service.stop_seconds),
        "Umask": 0o077,
        "HardResourceLimits": {"Core": 0},
        "StandardOutPath": str(service.log_file),
        "StandardErrorPath": str(service.log_file),
    }


def command_in(content: bytes) -> list[str]:
    return [str(word) for word in plistlib.loads(content).get("ProgramArguments", [])]


class Launchd:
    """The launch agents of the logged-in user."""

    def __init__(self, home: Path) -> None:
        self.path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self._session = f"gui/{os.getuid()}"
        self._agent = f"{self._session}/{LABEL}"
        self.by_hand: tuple[str, ...] = (f"launchctl bootstrap {self._session} '{self.path}'",)

    def content(self, service: Service) -> bytes:
        return plistlib.dumps(plist(service))

    def answers(self) -> bool:
        return succeeds("launchctl", "print", self._session)

    def state(self) -> ServiceState:
        if not self.path.exists():
            return ServiceState(str(self.path), None)
        url = url_of(command_in(self.path.read_bytes()))
        return ServiceState(str(self.path), url, True, self._is_loaded())

    def enable(self) -> None:
        must("launchctl", "enable", self._agent)

    def start(self) -> None:
        if self._is_loaded():
            self.stop()
        must("launchctl", "bootstrap", self._session, str(self.path))

    def stop(self) -> None:
        must("launchctl", "bootout", self._agent)

    def disable(self) -> None:
        self.path.unlink()

    def _is_loaded(self) -> bool:
        return succeeds("launchctl", "print", self._agent)
