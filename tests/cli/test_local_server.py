"""Commands that work on a server's data on its own machine, and know only its data directory."""

import json
import tarfile
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.processes import ServerProcess

COMMANDS = {
    "backup": ("backup", "backups"),
    "migrate": ("migrate", "--dry-run"),
    "support-bundle": ("support-bundle", "-o", "bundle.tar.gz"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_server_nothing_is_created(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    potluck = CommandLine(tmp_path / "config")
    result = potluck.run("admin", *COMMANDS[command], "--data-dir", tmp_path / "wrong")
    assert result.status != 0 and "bug" not in result.stderr
    message = " ".join(result.stderr.split())
    assert f"There is no server in {tmp_path / 'wrong' / 'server'}." in message
    assert "--data-dir" in message
    assert not {"wrong", "backups", "bundle.tar.gz"} & {path.name for path in tmp_path.iterdir()}


WRONG = {
    "support-bundle --log nothing.log": "'nothing.log' does not exist",
    "support-bundle -o bundle.tar.gz": "bundle.tar.gz cannot be read or written: File exists."
    " Choose another name.",
}


def test_a_support_bundle_is_of_the_server_that_runs_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its port, its settings and its PostgreSQL were named to the server alone."""
    potluck, path = CommandLine(tmp_path / "config"), tmp_path / "bundle.tar.gz"
    with ServerProcess(
        tmp_path / "pool", POTLUCK_LEASE_SECONDS="77", POTLUCK_ALERT_URL="json://misspelt"
    ) as server:
        (document,) = potluck.run(
            *("admin", "support-bundle", "--data-dir", tmp_path / "pool", "-o", path, "--json")
        ).lines()
        monkeypatch.chdir(tmp_path)
        for wrong, message in WRONG.items():
            refused = potluck.run("admin", *wrong.split(), "--data-dir", "pool")
            assert refused.status != 0 and message in " ".join(refused.stderr.split())
        log = (tmp_path / "pool" / "server.log").read_text()
    assert '"similar":"POTLUCK_ALERT_URLS"' in log and "misspelt" not in log
    assert set(document["failures"]) == {"database.json"}, "only that needs a secret"
    with tarfile.open(path) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}

        def content(name: str) -> bytes:
            file = archive.extractfile(members[name])
            assert file is not None
            return file.read()

        settings = json.loads(content("settings.json"))
        assert (settings["lease_seconds"], settings["port"]) == (77.0, server.port)
        assert settings["database_url"].endswith("/…"), "an address is shown without its password"
        assert json.loads(content("readiness.json"))["parts"]["database"] == "ok"
        assert json.loads(content("about.json"))["server"]["process_id"] == server.process.pid
