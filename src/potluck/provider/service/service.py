"""The description of the service, and the interface of service managers."""

import subprocess
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from potluck.model.error import NotInstalled

# In addition to its own grace: for sandboxes to end and for leaving the pool.
_STOP_MARGIN_SECONDS = 60.0
_RESTART_SECONDS = 10
_RESTART_SPREAD_SECONDS = 20
_ANSWER_SECONDS = 30.0
# Variables of the installing shell that the service gets, too; none of them is a secret.
_PREFIX = "POTLUCK_PROVIDER_"
_KEPT = frozenset({"POTLUCK_CA_FILE"})
_PROVIDE = "provide"


class Service(Struct, frozen=True):
    command: tuple[str, ...]  # `…/python -m potluck provide URL …`
    variables: Mapping[str, str]
    variables_file: Path  # the owner's, read at each start if it exists
    log_file: Path  # on systems without a journal
    stop_seconds: float
    restart_seconds: int

    @property
    def url(self) -> str:
        url = url_of(self.command)
        assert url is not None, "the command provides for a server"
        return url


class ServiceState(Struct, frozen=True):
    """`lingers`: whether it also runs while the user is logged out, if known."""

    path: str
    url: str | None  # None: it is not installed
    is_enabled: bool = False
    is_active: bool = False
    lingers: bool | None = None


class Manager(Protocol):
    """The service manager of one user on this machine."""

    path: Path  # of the service file
    by_hand: tuple[str, ...]  # commands that finish the installation manually

    def content(self, service: Service) -> bytes:
        """The content of the service file."""

    def answers(self) -> bool:
        """Whether the manager is running."""

    def state(self) -> ServiceState:
        """The current state."""

    def enable(self) -> None:
        """Starts it with the next session or boot."""

    def start(self) -> None:
        """Starts it, or restarts it with a new file."""

    def stop(self) -> None:
        """Stops it."""

    def disable(self) -> None:
        """Removes its file; a running provider continues."""


def describe(
    command: Sequence[str],
    variables: Mapping[str, str],
    config_directory: Path,
    data_directory: Path,
    stop_grace_seconds: float,
) -> Service:
    """The service of this machine. The restart delay differs between machines, to spread load."""
    kept_variables = {
        name: value
        for name, value in variables.items()
        if name.startswith(_PREFIX) or name in _KEPT
    }
    spread = zlib.crc32(str(data_directory).encode()) % _RESTART_SPREAD_SECONDS
    return Service(
        tuple(command),
        {**kept_variables, "POTLUCK_CONFIG_DIR": str(config_directory)},
        config_directory / "provider.env",
        data_directory / "provider.log",
        stop_grace_seconds + _STOP_MARGIN_SECONDS,
        _RESTART_SECONDS + spread,
    )


def url_of(command: Sequence[str]) -> str | None:
    """The server that a command provides for."""
    words = list(command)
    after = words[words.index(_PROVIDE) + 1 :] if _PROVIDE in words else []
    return after[0] if after else None


def succeeds(*command: str) -> bool:
    return _run(command) is None


def must(*command: str) -> None:
    """Raises NotInstalled with the program's error."""
    problem = _run(command)
    if problem is not None:
        raise NotInstalled(
            f"`{' '.join(command)}` failed: {problem}.",
            "`potluck provider install --print` shows the file; see also the log of your session.",
        )


def _run(command: Sequence[str]) -> str | None:
    """None, or the problem."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.TimeoutExpired:
        return f"no answer in {_ANSWER_SECONDS:g} s"
    if done.returncode == 0:
        return None
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"exit status {done.returncode}"
