"""Commands that work on a server's data on its own machine, and are given the wrong place."""

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

COMMANDS = {
    "backup": ("backup", "backups"),
    "migrate": ("migrate", "--dry-run"),
    "support-bundle": ("support-bundle", "-o", "bundle.tar.gz"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_where_no_server_is_nothing_is_made(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    potluck = CommandLine(tmp_path / "config")
    ended = potluck.run("admin", *COMMANDS[command], "--data-dir", tmp_path / "wrong")
    assert ended.status != 0 and "bug" not in ended.stderr
    told = " ".join(ended.stderr.split())
    assert f"There is no server in {tmp_path / 'wrong' / 'server'}." in told
    assert "--data-dir" in told
    assert not {"wrong", "backups", "bundle.tar.gz"} & {each.name for each in tmp_path.iterdir()}
