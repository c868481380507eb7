"""A terminal obeys nothing of what a stranger's node writes; a pipe gets it byte for byte."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.task import EndReason, TaskState
from potluck.wire.consumer import LogPage, LogPiece, TaskView
from tests.cli.command_line import CommandLine
from tests.cli.pool_fixture import an_attempt
from tests.cli.pseudo_terminal import Terminal
from tests.consumer.fake_server import FakeServer, a_task, log_event, says, state_event, streams

CLIPBOARD = b"\x1b]52;c;cm0gLXJmIH4=\x07"
HOSTILE = b"\x1b[32mgreen\n" + CLIPBOARD + b"\x1b[2J\x1b[H\x1bPq\x1b\\\xc2\x9b2J\x9b2J\x1b[99Aend"
SHOWN = "^[]52;c;cm0gLXJmIH4=^G^[[2J^[[H^[Pq^[\\M-^[2JM-^[2J"
OBEYED = (b"\x1b]", b"\x1bP", b"\x07", b"\x1b[2J", b"\x1b[H", b"\xc2\x9b", b"\x9b", b"\x1b[99A")


def plays(server: FakeServer) -> TaskView:
    """A task whose node cuts its sequences between two pieces."""
    end = a_task(
        *(TaskState.SUCCEEDED,),
        exit_code=0,
        reason=EndReason.COMPLETED,
        attempts=[an_attempt("attic", "Ryzen")],
    )
    half = HOSTILE.index(b"]52") + 3
    pieces = [("stdout", HOSTILE[:half]), ("stdout", HOSTILE[half:])]
    queued, running = (replace(end, state=state) for state in (TaskState.QUEUED, TaskState.RUNNING))
    server.plays("/v1/tasks", says(queued, 201))
    server.plays(f"/v1/tasks/{end.id}", says(end))
    logged = [LogPiece(stream, data) for stream, data in pieces]
    page = LogPage(end.attempts[0].id, 0, 2, logged, True)
    server.plays(f"/v1/tasks/{end.id}/logs", says(page), says(replace(page, offset=2, pieces=[])))
    server.plays(
        f"/v1/tasks/{end.id}/follow",
        streams(
            state_event(1, running),
            *(log_event(2 + index, index, piece) for index, piece in enumerate(pieces)),
            state_event(9, end),
        ),
    )
    return end


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("print(1)\n")
    return path


def words_of(command: str, task: TaskView, script: Path) -> list[str | Path]:
    commands: dict[str, list[str | Path]] = {
        "run": ["run", script],
        "logs": ["logs", task.id],
        "logs -f": ["logs", "-f", task.id],
        "result": ["result", task.id],
    }
    return commands[command]


@pytest.mark.parametrize("command", ["run", "logs", "logs -f", "result"])
def test_a_terminal_obeys_nothing_of_it(
    process_user: CommandLine, server: FakeServer, script: Path, command: str
) -> None:
    arguments = words_of(command, plays(server), script)
    with Terminal(process_user, *arguments, kind="xterm-256color", columns=120) as terminal:
        terminal.rest()
        assert terminal.status() == 0
    written = terminal.raw
    for sequence in OBEYED:
        assert sequence not in written, sequence
    assert SHOWN.encode() in written
    assert b"\x1b[32mgreen" in written, "colours pass"
    end = written.index(b"end")
    assert written[end:].startswith(b"end\x1b[0m"), "and do not leak"


@pytest.mark.parametrize("command", ["run", "logs", "logs -f", "result"])
def test_a_pipe_and_a_raw_terminal_get_it_exactly(
    process_user: CommandLine, server: FakeServer, script: Path, command: str
) -> None:
    arguments = words_of(command, plays(server), script)
    assert process_user.run(*arguments).stdout == HOSTILE
    name, *others = words_of(command, plays(server), script)
    with Terminal(process_user, name, "--raw", *others) as terminal:
        terminal.rest()
    assert HOSTILE.replace(b"\n", b"\r\n") in terminal.raw


def test_json_in_a_terminal_escapes_what_json_alone_does_not(
    process_user: CommandLine, server: FakeServer
) -> None:
    task = plays(server)
    with Terminal(process_user, "logs", "--json", task.id) as terminal:
        terminal.rest()
    assert b"\xc2\x9b" not in terminal.raw and b"\\u009b2J" in terminal.raw
