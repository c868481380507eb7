"""This version and the last one together, as the table in docs/operations.md says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import potluck
from tests.databases import Databases
from tests.end_to_end import earlier_version
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess

Variables = dict[str, str]
OURS: Variables = {}
READS = (
    *("ps", "status", "logs", "result", "files", "events", "balance", "whoami", "gpus", "nodes"),
    *("keys list", "sessions list", "webhooks list", "templates"),
    *("admin accounts", "admin audit", "explain hello.py"),
)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Variables:
    return earlier_version.extract(tmp_path_factory.mktemp("earlier"))


@contextmanager
def server_of(
    directory: Path, databases: Databases, variables: Variables
) -> Iterator[ServerProcess]:
    with databases.empty() as url:
        if variables is not OURS:
            earlier_version.make_schema(url)
        with ServerProcess(directory, 0, POTLUCK_DATABASE_URL=url, **variables) as server:
            yield server


class Terminal:
    """A person with the command line of one version, signed in by the first command."""

    def __init__(self, directory: Path, server: ServerProcess, variables: Variables) -> None:
        directory.mkdir()
        self.directory = directory
        self._server = server
        self.variables = {
            **os.environ,
            "HOME": str(directory),
            "XDG_CONFIG_HOME": str(directory),
            "POTLUCK_WALLET_KEY": server.wallet.key.hex(),
            **variables,
        }

    def first_run(self) -> str:
        """Signs in, and runs a script."""
        (self.directory / "hello.py").write_text("print('hello')")
        return self.succeed("run", "--server", self._server.url, "hello.py")

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "potluck", *arguments],
            env=self.variables,
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def succeed(self, *arguments: str) -> str:
        process = self.run(*arguments)
        assert process.returncode == 0, (arguments, process.stdout[-2000:], process.stderr[-2000:])
        return process.stdout

    def read(self, *arguments: str) -> Any:
        return json.loads(self.succeed(*arguments, "--json").splitlines()[-1])


def test_a_provider_and_a_client_of_the_last_version_work_with_this_server(
    tmp_path: Path, databases: Databases, earlier: Variables
) -> None:
    with (
        server_of(tmp_path / "server", databases, OURS) as server,
        ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER, **earlier) as node,
    ):
        event = json.loads(node.process.stdout.readline())
        assert (event["event"], event["theirs"]) == ("version_skew", potluck.__version__)
        assert "Install Potluck" in event["hint"]
        terminal = Terminal(tmp_path / "home", server, earlier)
        assert earlier_version.RELEASE in terminal.succeed("version")
        assert "hello" in terminal.first_run()
        (task,) = terminal.read("ps")["tasks"]
        assert task["state"] == "succeeded"


def test_this_provider_and_this_client_work_with_a_server_of_the_last_version(
    tmp_path: Path, databases: Databases, earlier: Variables
) -> None:
    with (
        server_of(tmp_path / "server", databases, earlier) as server,
        ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER) as node,
    ):
        event = json.loads(node.process.stdout.readline())
        assert (event["event"], event["theirs"]) == ("version_skew", earlier_version.RELEASE)
        terminal = Terminal(tmp_path / "home", server, OURS)
        assert "hello" in terminal.first_run()
        # With what failed code wrote last, of which the server does not know.
        (terminal.directory / "fail.py").write_text("raise SystemExit('this is why')")
        failed = terminal.run("run", "fail.py")
        assert failed.returncode == 1 and "this is why" in failed.stdout + failed.stderr
        assert terminal.read("ps")["tasks"][0]["reason"] == "exit_status"
        # What only this version has is refused, with both versions and what to do.
        process = terminal.run("run", "--keep", "*.txt", "hello.py")
        assert process.returncode == 64, process.stderr
        assert f"earlier version of Potluck ({earlier_version.RELEASE})" in process.stderr
        assert "Ask its operator to upgrade it" in process.stderr


@pytest.mark.long
@pytest.mark.parametrize("earlier_part", ["server", "programs"])
def test_commands_of_every_sort_work_between_versions(
    tmp_path: Path, databases: Databases, earlier: Variables, earlier_part: str
) -> None:
    """Arrays, files, functions, streams, webhooks and what owners see of their machines."""
    of_server, of_programs = (OURS, earlier) if earlier_part == "programs" else (earlier, OURS)
    with (
        server_of(tmp_path / "server", databases, of_server) as server,
        ProviderProcess(tmp_path / "node", server, **FAST_PROVIDER, **of_programs),
    ):
        terminal = Terminal(tmp_path / "home", server, of_programs)
        terminal.first_run()
        (terminal.directory / "items.txt").write_text("a\nb\n")
        (terminal.directory / "items.py").write_text(
            "import sys\nprint(sys.argv)\nopen('output.txt', 'w').write('x')"
        )
        (terminal.directory / "fail.py").write_text("raise SystemExit('this is why')")
        terminal.succeed("map", "items.txt", "items.py")
        assert terminal.run("map", "items.txt", "fail.py").returncode == 1
        assert terminal.read("ps")["tasks"][0]["reason"] == "items_failed"
        terminal.succeed("run", "--file", "items.txt", "hello.py")
        (terminal.directory / "call.py").write_text(
            "import potluck\n@potluck.task\ndef double(x):\n    return 2 * x\n"
            "if __name__ == '__main__':\n    print(list(double.map(range(3))))\n"
        )
        called = subprocess.run(
            [sys.executable, "call.py"],
            env=terminal.variables,
            cwd=terminal.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "[0, 2, 4]" in called.stdout, called.stderr
        for command_words in READS:
            terminal.succeed(*command_words.split())
