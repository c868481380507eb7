"""Whether anybody sits at this machine, asked of what systems have to tell."""

import os
from pathlib import Path

import pytest

from potluck.provider.owner import presence
from potluck.provider.owner.presence import desktop_idle, look, session_idle, terminals_idle

NOW = 1_800_000_000.0


def test_the_terminal_that_was_typed_in_last_counts(tmp_path: Path) -> None:
    (tmp_path / "pts").mkdir()
    for name, seconds in (("pts/0", 300), ("pts/7", 20), ("tty1", 9000), ("pts/ptmx", 1)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (NOW - seconds, NOW))
    assert terminals_idle(tmp_path, NOW) == pytest.approx(20)
    assert terminals_idle(tmp_path / "nothing", NOW) is None


SESSIONS = """\
Type=tty
IdleHint=no
IdleSinceHint=0

Type=wayland
Class=user
State=online
IdleHint=yes
IdleSinceHint={since}
"""


def test_a_desktop_reports_its_idle_time() -> None:
    output = SESSIONS.format(since=int((NOW - 90) * 1e6))
    assert session_idle(output, NOW) == pytest.approx(90)
    in_use = output.replace("IdleHint=yes", "IdleHint=no")
    assert session_idle(in_use, NOW) == 0.0
    for replacement in (("Class=user", "Class=greeter"), ("State=online", "State=closing")):
        assert session_idle(in_use.replace(*replacement), NOW) is None
    # Terminals never call themselves idle; they are known from their files.
    assert session_idle(output.split("\n\n")[0], NOW) is None
    assert session_idle("", NOW) is None
    assert session_idle(output.replace("IdleSinceHint=1", "IdleSinceHint=n/a1"), NOW) is None


async def test_loginctl_is_asked_and_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "loginctl"
    tool.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = list-sessions ]; then echo "  c2 1000 ann seat0"; exit 0; fi\n'
        'echo "$@" > "$0.asked"\n'
        "printf 'Type=x11\\nIdleHint=no\\n'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert await desktop_idle() == 0.0
    assert (tmp_path / "loginctl.asked").read_text().split()[-1] == "c2"
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert await desktop_idle() is None
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(presence, "_ASK_SECONDS", 0.1)
    assert await desktop_idle() is None
    tool.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await desktop_idle() is None


def test_a_mac_tells_in_nanoseconds() -> None:
    output = '    | |   "HIDIdleTime" = 12500000000\n'
    assert presence._mac_idle(output) == 12.5
    assert presence._mac_idle("") is None


async def test_this_machine_can_be_asked() -> None:
    presence_now = await look()
    assert (presence_now.idle_seconds is None) is (presence_now.through == ())
