"""What is logged about a failure names lines of code, and not what was in variables."""

import os
import pty
import subprocess
import sys

import pytest

SECRET = "planted-in-a-variable"

_FAIL = """
import logging, sys
import structlog
from potluck.local.log import configure_logs

def fail(token):
    raise ValueError("what went wrong")

configure_logs()
for log in (structlog.get_logger(), logging.getLogger("a.library")):
    try:
        fail(sys.argv[1])
    except ValueError:
        log.exception("it failed")
"""


def logged(in_a_terminal: bool, program: str = _FAIL) -> str:
    """The standard error of a program that logs a failure by our log, and by a library's."""
    reader, writer = pty.openpty() if in_a_terminal else os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as screen:
        with os.fdopen(writer, "wb", buffering=0) as terminal:
            command = [sys.executable, "-c", program, SECRET]
            subprocess.run(command, stderr=terminal, check=True, timeout=30)
        os.set_blocking(screen.fileno(), False)
        return b"".join(_pieces(screen.fileno())).decode()


def _pieces(descriptor: int) -> list[bytes]:
    pieces = []
    try:
        while piece := os.read(descriptor, 65_536):
            pieces.append(piece)
    except OSError:  # all was read, and the other end of the terminal is closed
        pass
    return pieces


@pytest.mark.parametrize("in_a_terminal", [True, False], ids=["terminal", "file"])
def test_a_failure_is_told_by_lines_of_code_and_not_by_variables(in_a_terminal: bool) -> None:
    told = logged(in_a_terminal)
    assert SECRET not in told
    assert told.count("Traceback (most recent call last)") == 2, told
    assert told.count("what went wrong") >= 2
    assert "Warning" not in told, "the parts of the log agree with each other"


_HOSTILE = """
import logging, structlog
from potluck.local.log import configure_logs
configure_logs()
name = "\\x1b]52;c;QUJD\\x07\\x9b2J"
structlog.get_logger().warning("a node", name=name)
logging.getLogger("a.library").warning("a node: %s", name)
"""


def test_a_terminal_obeys_nothing_of_what_is_logged() -> None:
    told = logged(in_a_terminal=True, program=_HOSTILE)
    assert "\x1b]" not in told and "\a" not in told and "\x9b" not in told
    assert told.count("]52;c;QUJD") == 2, told
