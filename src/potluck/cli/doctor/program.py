"""The program itself: its Python, its version, and the terminal that it speaks to."""

import locale
import platform
import shutil
import sys
from collections.abc import Iterator

from potluck import __version__
from potluck.cli.doctor.finding import Finding, Patient, failed_by, odd, well, wrong
from potluck.model.error import PotluckError

_PYTHON = (3, 11)
_COLUMNS = 80


def look_at_program(_: Patient) -> Iterator[Finding]:
    yield _python()
    yield well("potluck", __version__, "installed")
    yield _width()
    yield _characters(locale.getpreferredencoding(False), getattr(sys.stdout, "encoding", ""))
    yield from _damaged_profile()


def _python() -> Finding:
    needed = f"{_PYTHON[0]}.{_PYTHON[1]} or later"
    if sys.version_info < _PYTHON:
        return wrong("python", platform.python_version(), needed, "make PYTHON=python3.12 up")
    return well("python", platform.python_version(), needed)


def _width() -> Finding:
    columns = shutil.get_terminal_size((_COLUMNS, 24)).columns
    needed = f"{_COLUMNS} columns or more"
    if columns < _COLUMNS:
        return odd("terminal width", f"{columns} columns", needed, "Make the window wider.")
    return well("terminal width", f"{columns} columns", needed)


def _characters(*encodings: str) -> Finding:
    """What is written for people has a few characters beyond ASCII."""
    strange = [each for each in encodings if each.lower().replace("-", "") != "utf8"]
    if strange:
        return odd("characters", strange[0], "UTF-8", "export LC_ALL=C.UTF-8")
    return well("characters", "UTF-8", "UTF-8")


def _damaged_profile() -> Iterator[Finding]:
    """It names the server and its authority, for consumers and providers alike."""
    from potluck.consumer.identity.profile import saved_profile

    try:
        saved_profile()
    except PotluckError as error:
        yield failed_by("profile", error, "can be read")
