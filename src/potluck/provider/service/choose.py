"""Finds the service manager of this machine."""

import sys
from pathlib import Path

from potluck.model.error import NotInstalled
from potluck.provider.service.launchd import Launchd
from potluck.provider.service.service import Manager
from potluck.provider.service.systemd import Systemd


def find_manager(platform: str = sys.platform) -> Manager:
    """The user's service manager; raises NotInstalled on unsupported systems."""
    if platform == "linux":
        return Systemd(Path.home())
    if platform == "darwin":
        return Launchd(Path.home())
    raise NotInstalled(
        f"Potluck supports no service manager on this system ({platform}).",
        "Let the system start `potluck provide URL` when you log in; on Windows, use the Task"
        " Scheduler (a task with the trigger `At log on`).",
    )
