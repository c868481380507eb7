"""Which service manager this machine has."""

import sys
from pathlib import Path

from potluck.model.error import NotInstalled
from potluck.provider.service.launchd import Launchd
from potluck.provider.service.service import Manager
from potluck.provider.service.systemd import Systemd


def find_manager(platform: str = sys.platform) -> Manager:
    """The user's own; raises NotInstalled on systems of which we know none."""
    if platform == "linux":
        return Systemd(Path.home())
    if platform == "darwin":
        return Launchd(Path.home())
    raise NotInstalled(
        f"Potluck knows no service manager of this system ({platform}).",
        "Let the system start `potluck provide URL` when you log in; on Windows, the Task Scheduler"
        " does (a task with the trigger `At log on`).",
    )
