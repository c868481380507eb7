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
def test_a_failure_report_has_lines_of_code_and_no_variables(in_a_terminal: bool) -> None:
    output = logged(in_a_terminal)
    assert SECRET not in output
    assert output.count("Traceback (most recent call last)") == 2, output
    assert output.count("what went wrong") >= 2
    assert "Warning" not in output, "the parts of the log agree with each other"


_HOSTILE = """
import logging, structlog
from potluck.local.log import configure_logs
configure_logs()
name = "\\x1b]52;c;QUJD\\x07\\x9b2J"
structlog.get_logger().warning("a node", name=name)
logging.getLogger("a.library").warning("a node: %s", name)
"""


def test_log_lines_cannot_control_the_terminal() -> None:
    output = logged(in_a_terminal=True, program=_HOSTILE)
    assert "\x1b]" not in output and "\a" not in output and "\x9b" not in output
    assert output.count("]52;c;QUJD") == 2, output


_TWICE = """
import logging, structlog
from potluck.local.log import configure_logs
seen = []
configure_logs(
    observers=[lambda event, exception, _: seen.append((event, type(exception).__name__))]
)
log = structlog.get_logger()
try:
    try:
        {}["a"]
    except KeyError as error:
        log.error("inside", exc_info=error)
        raise
except KeyError as error:
    log.exception("outside")
    logging.getLogger("a.library").error("a library", exc_info=error)
log.error("without an exception")
assert seen == [("inside", "KeyError"), ("without an exception", "NoneType")], seen
"""


def test_an_exception_is_logged_and_counted_once() -> None:
    output = logged(in_a_terminal=False, program=_TWICE)
    assert output.count("Traceback") == 1 and "outside" not in output and "a library" not in output
    assert "without an exception" in output


_ORIGINS = """
import logging, structlog
from potluck.local.log import configure_logs
seen = []
configure_logs(observers=[lambda event, _, origin: seen.append((event, origin))])
structlog.get_logger().error("it failed", task_id="task_1")
logging.getLogger("a.library").error("%s failed", "task_1")
assert seen == [("it failed", "it failed"), ("task_1 failed", "a.library: %s failed")], seen
"""


def test_an_error_of_a_library_is_recorded_by_its_format() -> None:
    assert "task_1 failed" in logged(in_a_terminal=False, program=_ORIGINS)


_SECRET = """
import logging, sys, structlog
from potluck.local.log import LogLevel, LogStyle, configure_logs
configure_logs(LogLevel.DEBUG, LogStyle("STYLE"))
key = "potluck_key_" + "x" * 43
structlog.get_logger().debug("a request", key=key, nothing=None)
logging.getLogger("a.library").warning("a request with %s", key)
"""


@pytest.mark.parametrize("style", ["json", "text"])
def test_likely_secrets_are_masked_in_every_style(style: str) -> None:
    output = logged(in_a_terminal=False, program=_SECRET.replace("STYLE", style))
    assert "x" * 43 not in output and output.count("[secret]") == 2
    assert output.startswith("{") is (style == "json"), output


_TEXT = """
import structlog
from potluck.local.log import LogStyle, configure_logs

configure_logs(style=LogStyle.TEXT)
structlog.get_logger().info("it works", tasks=3)
"""


@pytest.mark.parametrize(
    ("in_a_terminal", "no_color", "has_colours"),
    [(True, "", True), (True, "1", False), (False, "", False)],
)
def test_colours_are_for_terminals_that_want_them(
    in_a_terminal: bool, no_color: str, has_colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    output = logged(in_a_terminal, _TEXT)
    assert "it works" in output and ("\x1b" in output) is has_colours
