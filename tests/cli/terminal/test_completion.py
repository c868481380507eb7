"""What the shell offers: commands, options, ready tasks, and my tasks while they are known."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from potluck.cli import completion
from potluck.model.error import NotSignedIn
from potluck.model.task import TaskState
from potluck.wire.consumer import TaskPage
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, a_task, hang_up, refuses, says

PROGRAMS = str(Path(sys.executable).parent)
# For each line the words are split as bash splits them; the last one is half typed.
_IN_BASH = """
source <(potluck --show-completion bash)
for line in "$@"; do
    IFS=' ' read -ra COMP_WORDS <<< "${line%_}"; [[ $line == *' _' ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _potluck_completion potluck
    echo "${COMPREPLY[*]}"
done
"""


def in_a_shell(user: CommandLine, *command: str) -> str:
    variables = {**user.variables, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    process = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=60)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def plays_tasks(server: FakeServer) -> tuple[str, str]:
    train, sweep = a_task(TaskState.RUNNING, name="train.py"), a_task(name="sweep.py")
    server.plays("/v1/tasks", says(TaskPage([train, sweep])))
    return train.id, sweep.id


def test_bash_offers_what_fits(process_user: CommandLine, server: FakeServer) -> None:
    train, _ = plays_tasks(server)
    lines = {
        "potluck te": "templates",
        "potluck keys _": "list add revoke",
        "potluck ps --state s": "succeeded",
        "potluck run --template man": "mandelbrot",
        "potluck logs _": "train.py sweep.py",
        f"potluck logs {train[-8:-4]}": train[-8:],
        "potluck provider set pri": "price=",
        "potluck explain swe": "sweep.py",
    }
    output = in_a_shell(process_user, "bash", "-c", _IN_BASH, "bash", *lines)
    assert dict(zip(lines, output.splitlines(), strict=True)) == lines
    assert len(server.requests) == 1, "what was said is good for a few seconds"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not here")
def test_fish_offers_what_fits(process_user: CommandLine, server: FakeServer) -> None:
    plays_tasks(server)
    command = "potluck --show-completion fish | source; complete -C 'potluck logs '"
    assert "train.py\trunning" in in_a_shell(process_user, "fish", "-c", command)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell", "pwsh"])
def test_every_shell_has_a_completion_script(user: CommandLine, shell: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as error_info:
        user.run("--show-completion", shell)
    assert error_info.value.code == 0
    with mock.patch.dict(os.environ, user.variables, clear=True):
        completions = completion.complete_template_names("man")
    assert completions[0][0] == "mandelbrot" and len(completions[0][1]) <= 60


def test_completion_is_installed_where_bash_looks(
    process_user: CommandLine, tmp_path: Path
) -> None:
    process_user.variables["HOME"] = str(tmp_path)
    output = in_a_shell(process_user, "potluck", "--install-completion", "bash")
    assert "completion installed" in output
    assert "_potluck_completion" in (tmp_path / ".bash_completions/potluck.sh").read_text()
    assert ".bash_completions/potluck.sh" in (tmp_path / ".bashrc").read_text()


@pytest.fixture
def known(user: CommandLine, tmp_path: Path) -> "Known":
    return Known(user, tmp_path / "config")


class Known:
    """What is offered in this process, for one person."""

    def __init__(self, user: CommandLine, directory: Path):
        self.user = user
        self.file = directory / "completion.json"
        directory.mkdir(exist_ok=True)

    def ids(self, prefix: str = "") -> list[str]:
        with mock.patch.dict(os.environ, self.user.variables, clear=True):
            return [task_id for task_id, _ in completion.complete_task_ids(prefix)]

    def age(self) -> None:
        """As if it had been said long ago."""
        self.file.write_text(json.dumps({**json.loads(self.file.read_text()), "at": 0}))


def test_live_tasks_come_first_and_a_name_of_several_tasks_by_its_ids(
    known: Known, server: FakeServer
) -> None:
    ended_tasks = [a_task(TaskState.SUCCEEDED, name="train.py") for _ in range(2)]
    live = a_task(TaskState.RUNNING, name="sweep.py")
    server.plays("/v1/tasks", says(TaskPage([*ended_tasks, live])))
    assert known.ids() == ["sweep.py", *(task.id[-8:] for task in ended_tasks)]


def test_a_whole_id_is_completed_whole(known: Known, server: FakeServer) -> None:
    train, _ = plays_tasks(server)
    assert known.ids("task_") == [train, _]
    assert known.ids(train[:-2]) == [train]
    assert known.file.stat().st_mode & 0o077 == 0
    assert "secret" not in known.file.read_text(), "of the token it has nothing"


def test_an_unreachable_server_leaves_its_last_completions(
    known: Known, server: FakeServer
) -> None:
    plays_tasks(server)
    assert known.ids() == ["train.py", "sweep.py"]
    known.age()
    server.plays("/v1/tasks", hang_up())
    assert known.ids() == ["train.py", "sweep.py"]
    server.plays("/v1/tasks", says(TaskPage([])))
    assert known.ids() == []


def test_completion_shows_no_tasks_of_another_account(known: Known, server: FakeServer) -> None:
    plays_tasks(server)
    known.ids()
    known.user.variables["POTLUCK_TOKEN"] = "another"
    server.plays("/v1/tasks", refuses(NotSignedIn("Who are you?")))
    assert known.ids() == []
    del known.user.variables["POTLUCK_TOKEN"]
    assert known.ids() == [], "nobody is signed in"


@pytest.mark.parametrize("written", ["", "{", "[]", '{"tasks": 3}', "\0"])
def test_a_damaged_file_is_no_trouble(known: Known, server: FakeServer, written: str) -> None:
    known.file.write_text(written)
    plays_tasks(server)
    assert known.ids() == ["train.py", "sweep.py"]


def test_without_a_server_it_is_silent(stranger: CommandLine, tmp_path: Path) -> None:
    assert Known(stranger, tmp_path / "config").ids() == []
