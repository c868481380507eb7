"""What `potluck admin backup` and `restore` show while they work."""

import pytest

from potluck.cli.admin.backup import show_progress
from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen


def test_a_log_has_one_line_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveLine(Screen(json=False)) as line:
        report = show_progress(line, is_live=False)
        for number in range(64):
            report("tables", number, 64)
        for number in range(100):
            report("files and logs", number, 100)
        report("verifying", 0, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["potluck: tables", "potluck: files and logs", "potluck: verifying"]
