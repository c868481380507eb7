"""`--notify`: whoever looked away hears of a task's end, and only their own machine knows."""

import os
import stat
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.error import Unavailable
from potluck.model.task import TaskState
from potluck.wire.consumer import ItemCounts
from tests.cli.command_line import CommandLine
from tests.cli.pseudo_terminal import Terminal
from tests.consumer.fake_server import FakeServer, a_task, refuses, says, state_event, streams

SECRET = "token-of-mine"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("print(1)\n")
    return path


def plays(server: FakeServer, state: TaskState = TaskState.SUCCEEDED, **fields: Any) -> str:
    end = a_task(state, name="<b>train</b>.py", **fields)
    server.plays("/v1/tasks", says(replace(end, state=TaskState.QUEUED), 201))
    server.plays(f"/v1/tasks/{end.id}/follow", streams(state_event(1, end)))
    server.plays(f"/v1/tasks/{end.id}", says(end))
    return end.id


def test_the_bell_rings_once_at_the_end(
    process_user: CommandLine, server: FakeServer, script: Path
) -> None:
    plays(server)
    with Terminal(process_user, "run", "--notify", "bell", script) as terminal:
        screen = terminal.rest()
        assert terminal.status() == 0
    assert screen.count("\a") == 1
    assert screen.index("\a") > screen.index("succeeded")


def a_program(directory: Path, name: str, body: str) -> Path:
    """Found on the PATH, as the system's own would be."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("notify-send", ["Potluck: <b>train</b>.py failed", "&lt;b&gt;train&lt;/b&gt;.py failed"]),
        ("osascript", ["Potluck: <b>train</b>.py failed", "<b>train</b>.py failed"]),
    ],
)
def test_desktop_notices_use_an_installed_program(
    user: CommandLine,
    server: FakeServer,
    script: Path,
    tmp_path: Path,
    program: str,
    lines: list[str],
) -> None:
    plays(server, TaskState.FAILED)
    output_file = tmp_path / "told"
    programs = tmp_path / "programs"
    a_program(programs, program, f"printf '%s\\n' \"$@\" > '{output_file}'")
    user.variables["PATH"] = str(programs)
    assert user.run("run", "--notify", "desktop", script).status == 1
    assert output_file.read_text().splitlines()[-2:] == lines


def test_a_toast_has_its_words_in_variables(
    user: CommandLine, server: FakeServer, script: Path, tmp_path: Path
) -> None:
    plays(server)
    output_file = tmp_path / "told"
    programs = tmp_path / "programs"
    command = f'printf "%s" "$POTLUCK_NOTICE_TITLE|$WSLENV|$*" > "{output_file}"'
    a_program(programs, "powershell.exe", command)
    user.variables["PATH"] = str(programs)
    assert user.run("run", "--notify", "desktop", script).status == 0
    title, variable, arguments = output_file.read_text().split("|")
    assert (title, variable) == (
        "Potluck: <b>train</b>.py succeeded",
        "POTLUCK_NOTICE_TITLE:POTLUCK_NOTICE_TEXT",
    )
    assert "train" not in arguments


def test_a_desktop_that_fails_is_a_remark(
    user: CommandLine, server: FakeServer, script: Path, tmp_path: Path
) -> None:
    plays(server)
    a_program(tmp_path / "programs", "notify-send", "exit 3")
    user.variables["PATH"] = str(tmp_path / "programs")
    result = user.run("run", "--notify", "desktop", script)
    assert (result.status, "could not be notified" in result.stderr) == (0, True)


@pytest.mark.parametrize(("state", "status"), [(TaskState.SUCCEEDED, 0), (TaskState.FAILED, 1)])
def test_notices_precede_downloads_and_an_unreachable_server_changes_no_status(
    user: CommandLine,
    server: FakeServer,
    script: Path,
    tmp_path: Path,
    state: TaskState,
    status: int,
) -> None:
    """The remark of a desktop that fails says when it was told."""
    task_id = plays(server, state, items=ItemCounts(3, 0, 2, 1))
    server.plays(f"/v1/tasks/{task_id}/items", refuses(Unavailable("The server is away.", "Wait.")))
    a_program(tmp_path / "programs", "notify-send", "exit 3")
    user.variables["PATH"] = str(tmp_path / "programs")
    result = user.run("run", "--notify", "desktop", "--array", "3", script)
    assert result.status == status
    message = " ".join(result.stderr.split())
    sentence = f"The server is away. `potluck result {task_id[-8:]}` shows which items failed."
    assert (
        message.index("1 failed") < message.index("could not be notified") < message.index(sentence)
    )


def test_an_apprise_url_is_sent_to_from_here(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    """The receiver is the same fake server, so that nothing it was sent can be overlooked."""
    task_id = plays(server)
    server.plays("/hook", says({}))
    url = f"json://{server.url.removeprefix('http://')}/hook?+X-Token={SECRET}"
    for command in (
        ("run", "--notify", url, script),
        ("logs", "-f", "--notify", url, task_id),
        ("result", "--wait", "--notify", url, task_id),
    ):
        server.requests.clear()
        assert user.run(*command).status == 0
        (sent,) = [request for request in server.requests if request.path == "/hook"]
        body = msgspec.json.decode(sent.body)
        assert (body["title"], body["type"]) == ("Potluck: <b>train</b>.py succeeded", "success")
        assert "train" in body["message"] and sent.headers["X-Token"] == SECRET
        others = [request for request in server.requests if request.path != "/hook"]
        assert not any(SECRET in str(request) for request in others), (
            "our server never learns of it"
        )


def test_the_variable_is_the_default_and_none_is_silent(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    plays(server)
    server.plays("/hook", says({}))
    user.variables["POTLUCK_NOTIFY"] = f"json://{server.url.removeprefix('http://')}/hook bell"
    assert user.run("run", script).status == 0
    assert [request.path for request in server.requests].count("/hook") == 1
    plays(server)
    assert user.run("run", "--notify", "none", script).status == 0
    assert user.run("run", "--detach", script).status == 0
    assert [request.path for request in server.requests].count("/hook") == 1


def test_a_receiver_that_is_away_is_a_remark_without_its_url(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    plays(server)
    result = user.run("run", "--notify", f"json://127.0.0.1:9/{SECRET}", script)
    assert (result.status, "could not be sent" in result.stderr) == (0, True)
    assert SECRET not in result.stderr


@pytest.mark.parametrize(
    ("url", "status", "sentence"),
    [
        (f"nothing://{SECRET}", 64, "a URL that apprise does not understand"),
        (f"bel-{SECRET}", 64, "has an unknown value"),
        ("desktop", 78, "needs one of these programs"),
    ],
)
def test_an_unusable_notify_option_is_refused_before_anything_runs(
    user: CommandLine, server: FakeServer, script: Path, url: str, status: int, sentence: str
) -> None:
    user.variables["PATH"] = os.devnull
    result = user.run("run", "--notify", url, script)
    assert result.status == status
    assert sentence in " ".join(result.stderr.split()) and SECRET not in result.stderr
    assert not server.requests


def test_a_missing_apprise_is_reported_with_its_install_command(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    with mock.patch.dict(sys.modules, {"apprise": None}):
        result = user.run("run", "--notify", f"json://{SECRET}", script)
    assert result.status == 69
    assert "`pip install apprise`" in result.stderr and SECRET not in result.stderr
