"""The provider as a systemd unit: a user's, or the system's.

It uses none of systemd's sandboxing options: inside of their namespaces and filters, the user
namespaces of the task sandboxes could not be created.
"""

import getpass
import os
import re
import shlex
from pathlib import Path

from potluck.model.error import BadSettings
from potluck.provider.service.service import Service, ServiceState, must, succeeds, url_of

NAME = "potluck-provider.service"
_LINGERING = Path("/var/lib/systemd/linger")
# A wrong command line, a revoked key, a wrong setting: a restart does not help.
_FINAL_STATUSES = "64 77 78"


def unit(service: Service) -> str:
    """The content of the unit file of a user."""
    remarks = f"""\
# Written by `potluck provider install`. What you add with `systemctl --user edit {NAME}`,
# and variables in the file below, are kept.
"""
    return remarks + _content(service, "", "default.target")


def system_unit(service: Service, user: str) -> str:
    """The content of a unit of the system, which runs as this user."""
    remarks = f"""\
# A provider that starts with its machine and runs as a user of its own. It is made from the same
# code as the unit of `potluck provider install` (`make docs`). Before the first start, let a wallet
# authorise the machine:
#
#   useradd --create-home {user}
#   sudo -u {user} -H {" ".join(service.command)} --authorise
#
# Changes made with `systemctl edit {NAME}`, and variables in the file below, are kept.
"""
    as_user = f"User={user}\nWorkingDirectory=~\n"
    return remarks + _content(service, as_user, "multi-user.target")


def _content(service: Service, as_user: str, target: str) -> str:
    variables = "".join(
        f"Environment={_quoted(f'{name}={value}')}\n"
        for name, value in sorted(service.variables.items())
    )
    return f"""\

[Unit]
Description=Potluck provider for {_plain(service.url)}
# An outage of the server may last for hours, and every try counts.
StartLimitIntervalSec=0

[Service]
Type=exec
{as_user}ExecStart={" ".join(_quoted(word, is_command=True) for word in service.command)}
{variables}EnvironmentFile=-{_plain(str(service.variables_file))}
Restart=on-failure
RestartSec={service.restart_seconds}
RestartPreventExitStatus={_FINAL_STATUSES}
# SIGTERM is for the provider alone, which ends the tasks itself; what is left then is killed.
KillMode=mixed
TimeoutStopSec={service.stop_seconds:.0f}
# The limits of tasks are control groups below this one.
Delegate=yes
# A task that runs out of memory ends; the provider and the other tasks do not.
OOMPolicy=continue
UMask=0077
LimitCORE=0

[Install]
WantedBy={target}
"""


def command_in(text: str) -> list[str]:
    """The command of a unit."""
    line = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    words = shlex.split(line[1]) if line else []
    return [word.replace("%%", "%").replace("$$", "$") for word in words]


def _quoted(word: str, is_command: bool = False) -> str:
    """As systemd reads it back: specifiers and, in commands, variables are not expanded."""
    escaped = _plain(word).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + (escaped.replace("$", "$$") if is_command else escaped) + '"'


def _plain(word: str) -> str:
    if not word.isprintable():
        raise BadSettings(
            f"{word!r} cannot be used in a systemd unit.", "Remove the unprintable characters."
        )
    return word.replace("%", "%%")


class Systemd:
    """The systemd user manager."""

    by_hand: tuple[str, ...] = (
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {NAME}",
    )

    def __init__(self, home: Path) -> None:
        configured = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
        self.path = Path(configured) / "systemd" / "user" / NAME

    def content(self, service: Service) -> bytes:
        return unit(service).encode()

    def answers(self) -> bool:
        return succeeds("systemctl", "--user", "show-environment")

    def state(self) -> ServiceState:
        if not self.path.exists():
            return ServiceState(str(self.path), None)
        return ServiceState(
            str(self.path),
            url_of(command_in(self.path.read_text())),
            succeeds("systemctl", "--user", "is-enabled", "--quiet", NAME),
            succeeds("systemctl", "--user", "is-active", "--quiet", NAME),
            (_LINGERING / getpass.getuser()).exists(),
        )

    def enable(self) -> None:
        must("systemctl", "--user", "daemon-reload")
        must("systemctl", "--user", "enable", NAME)

    def start(self) -> None:
        must("systemctl", "--user", "restart", NAME)

    def stop(self) -> None:
        must("systemctl", "--user", "stop", NAME)

    def disable(self) -> None:
        if self.answers():
            must("systemctl", "--user", "disable", NAME)
        self.path.unlink()
        if self.answers():
            must("systemctl", "--user", "daemon-reload")
