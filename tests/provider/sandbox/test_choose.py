"""Without a sandbox the owner is told why, and what helps."""

import subprocess
import sys
from pathlib import Path

import pytest

from potluck.model.task import EndReason
from potluck.provider.sandbox.bubblewrap import diagnose
from potluck.provider.sandbox.driver import outcome_of_shell_code
from tests.provider.sandbox.conftest import REPOSITORY

APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
MAXIMUM = Path("/proc/sys/user/max_user_namespaces")
CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")


CHOOSE = """
import asyncio, sys
from pathlib import Path
from potluck.provider.sandbox.choose import DriverSite, choose
chosen = asyncio.run(choose(DriverSite(Path(sys.argv[1]), "node"), sys.argv[2]))
print(type(chosen.driver).__name__, chosen.report.driver)
"""


@pytest.mark.parametrize(
    ("word", "expected_driver"), [("bwrap", "WithImages bwrap"), ("none", "WithImages none")]
)
def test_none_must_be_asked_for_by_name(tmp_path: Path, word: str, expected_driver: str) -> None:
    """In a process of its own: a driver adopts the orphans of its process."""
    arguments = [sys.executable, "-c", CHOOSE, str(tmp_path), word]
    assert subprocess.check_output(arguments, text=True).strip() == expected_driver


def test_an_interpreter_that_does_not_start_is_no_sandbox(tmp_path: Path) -> None:
    arguments = [
        sys.executable,
        "-m",
        "tests.provider.sandbox.host",
        "bwrap",
        str(tmp_path),
        str(tmp_path),
    ]
    process = subprocess.run(arguments, capture_output=True, text=True, cwd=REPOSITORY)
    assert process.returncode == 1
    assert process.stderr.startswith("The sandbox does not work")
    assert "/opt/python/bin/python3" in process.stderr


@pytest.mark.parametrize(
    ("message", "settings", "helps"),
    [
        # Ubuntu 24.04: the namespace is made, but nothing may be done in it.
        (
            "bwrap: setting up uid map: Permission denied",
            {APPARMOR: "1"},
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("bwrap: nesting depth (ENOSPC)", {MAXIMUM: "0"}, "user.max_user_namespaces="),
        ("bwrap: No permissions", {CLONE: "0"}, "kernel.unprivileged_userns_clone=1"),
        # A container's own filter.
        ("bwrap: Creating new namespace failed: Operation not permitted", {}, "docker run"),
        ("bwrap: something else", {}, "bwrap --ro-bind / /"),
    ],
)
def test_known_causes_of_a_failing_sandbox_are_diagnosed(
    message: str, settings: dict[Path, str], helps: str
) -> None:
    assert helps in diagnose.explain(message, is_root=False, settings=settings).hint


def test_settings_for_ordinary_users_are_no_excuse_for_root() -> None:
    diagnosis = diagnose.explain(
        "bwrap: Operation not permitted", True, {APPARMOR: "1", MAXIMUM: "0"}
    )
    assert "docker run" in diagnosis.hint


@pytest.mark.parametrize(
    ("code", "wait_status", "reason", "exit_code"),
    [
        (137, 9, EndReason.SIGNAL, -9),  # the kernel says that it was a signal
        (137, 137 << 8, EndReason.EXIT_STATUS, 137),  # or that it was none
        (137, None, EndReason.SIGNAL, -9),  # an older kernel does not say
        (255, None, EndReason.EXIT_STATUS, 255),  # no signal has that number
        (1, None, EndReason.EXIT_STATUS, 1),
        (0, None, EndReason.COMPLETED, 0),
    ],
)
def test_a_signal_hidden_in_an_exit_status(
    code: int, wait_status: int | None, reason: EndReason, exit_code: int
) -> None:
    verdict = outcome_of_shell_code(code, wait_status)
    assert (verdict.reason, verdict.exit_code) == (reason, exit_code)
