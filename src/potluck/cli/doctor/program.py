"""Checks Python, the program's version, the terminal, and the profile."""

import locale
import platform
import shutil
import sys
from collections.abc import Iterator

from potluck import __version__
from potluck.cli.doctor.finding import CheckedMachine, Finding, failed, failed_with, passed, warned
from potluck.model.error import PotluckError

_PYTHON = (3, 11)
_COLUMNS = 80


def check_program(_: CheckedMachine) -> Iterator[Finding]:
    yield _check_python()
    yield passed("potluck", __version__, "installed")
    yield _check_width()
    yield _check_encoding(locale.getpreferredencoding(False), getattr(sys.stdout, "encoding", ""))
    yield from _check_profile()


def _check_python() -> Finding:
    needed = f"{_PYTHON[0]}.{_PYTHON[1]} or later"
    if sys.version_info < _PYTHON:
        return failed("python", platform.python_version(), needed, "make PYTHON=python3.12 up")
    return passed("python", platform.python_version(), needed)


def _check_width() -> Finding:
    columns = shutil.get_terminal_size((_COLUMNS, 24)).columns
    needed = f"{_COLUMNS} columns or more"
    if columns < _COLUMNS:
        return warned("terminal width", f"{columns} columns", needed, "Make the window wider.")
    return passed("terminal width", f"{columns} columns", needed)


def _check_encoding(*encodings: str) -> Finding:
    """The output has a few characters beyond ASCII."""
    others = [name for name in encodings if name.lower().replace("-", "") != "utf8"]
    if others:
        return warned("characters", others[0], "UTF-8", "export LC_ALL=C.UTF-8")
    return passed("characters", "UTF-8", "UTF-8")


def _check_profile() -> Iterator[Finding]:
    from potluck.consumer.identity.profile import load_profile

    try:
        load_profile()
    except PotluckError as error:
        yield failed_with("profile", error, "can be read")
