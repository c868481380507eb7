"""What a service manager is told, and what every one of them can be asked."""

import subprocess
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from potluck.model.error import NotInstalled

# Beyond its own grace: for sandboxes to end and for a goodbye.
_STOP_MARGIN_SECONDS = 60.0
_RESTART_SECONDS = 10
_RESTART_SPREAD_SECONDS = 20
_ANSWER_SECONDS = 30.0
# Those of the installing shell that the service gets too; none of them is a secret.
_PREFIX = "POTLUCK_PROVIDER_"
_KEPT = frozenset({"POTLUCK_CA_FILE"})
_PROVIDE = "provide"


class Service(Struct, frozen=True):
    """A provider that somebody wants to run whenever the machine does."""

    command: tuple[str, ...]  # `…/python -m potluck provide URL …`
    variables: Mapping[str, str]
    variables_file: Path  # of the owner's own, read at each start if it is there
    log_file: Path  # where there is no journal to write to
    stop_seconds: float
    restart_seconds: int

    @property
    def url(self) -> str:
        found = url_of(self.command)
        assert found is not None, "the command provides for a server"
        return found


class ServiceState(Struct, frozen=True):
    """What became of it. `lingers` says whether it runs while nobody is logged in, if known."""

    path: str
    url: str | None  # none: it is not installed
    is_enabled: bool = False
    is_active: bool = False
    lingers: bool | None = None


class Manager(Protocol):
    """The service manager of one user on this machine."""

    path: Path  # of the file that says what to run
    by_hand: tuple[str, ...]  # commands for an owner who has to do the rest

    def content(self, service: Service) -> bytes:
        """Of that file."""

    def answers(self) -> bool:
        """Whether there is one to talk to."""

    def state(self) -> ServiceState:
        """As it is now."""

    def enable(self) -> None:
        """It is started with the next session, or boot."""

    def start(self) -> None:
        """It runs from now on, as its file says."""

    def stop(self) -> None:
        """It does not run any more."""

    def disable(self) -> None:
        """Its file is gone; what runs, runs on."""


def describe(
    command: Sequence[str],
    variables: Mapping[str, str],
    config_directory: Path,
    data_directory: Path,
    stop_grace_seconds: float,
) -> Service:
    """The service of this machine; machines that fail together do not come back as one."""
    kept = {
        name: value
        for name, value in variables.items()
        if name.startswith(_PREFIX) or name in _KEPT
    }
    spread = zlib.crc32(str(data_directory).encode()) % _RESTART_SPREAD_SECONDS
    return Service(
        tuple(command),
        {**kept, "POTLUCK_CONFIG_DIR": str(config_directory)},
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
    """Raises NotInstalled, with what the program said."""
    said = _run(command)
    if said is not None:
        raise NotInstalled(
            f"`{' '.join(command)}` did not work: {said}.",
            "`potluck provider install --print` shows the file; the log of your session says more.",
        )


def _run(command: Sequence[str]) -> str | None:
    """None, or what is wrong."""
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
