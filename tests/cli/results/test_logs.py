"""`potluck logs`: which lines are shown."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from potluck.consumer.result.log_lines import LineSelection, LineSelector
from potluck.model.ids import AttemptId
from potluck.model.task import ItemRange, TaskState
from potluck.wire.consumer import AttemptPage, ItemCounts, LogPage, LogPiece, TaskView
from tests.cli.command_line import CommandLine
from tests.cli.test_commands import an_ended_task, log_page
from tests.consumer.fake_server import FakeServer, a_task, log_event, says, state_event, streams

PIECES = [("stdout", b"one\ntw"), ("stderr", b"err"), ("stdout", b"o\nthree\n"), ("stderr", b"or")]


@pytest.fixture
def task(server: FakeServer) -> TaskView:
    task = an_ended_task()
    server.plays(f"/v1/tasks/{task.id}", says(task))
    return task


@pytest.mark.parametrize(
    ("options", "stdout", "stderr"),
    [
        (("--tail", "2"), b"three\n", "error"),
        (("--tail", "0"), b"", ""),
        (("--grep", "o"), b"one\ntwo\n", "error"),
        (("--grep", "t", "--tail", "1"), b"three\n", ""),
        (("--since", "1h"), b"one\ntwo\nthree\n", "error"),  # an earlier server kept no times
    ],
)
def test_lines_are_selected_wherever_pieces_end(
    user: CommandLine,
    server: FakeServer,
    task: TaskView,
    options: tuple[str, ...],
    stdout: bytes,
    stderr: str,
) -> None:
    server.plays(f"/v1/tasks/{task.id}/logs", log_page(0, *PIECES), log_page(4))
    result = user.run("logs", task.id, *options)
    assert (result.status, result.stdout, result.stderr) == (0, stdout, stderr)


def test_only_lines_that_came_since_then(
    user: CommandLine, server: FakeServer, task: TaskView
) -> None:
    now = datetime.now(UTC)
    pieces = [
        LogPiece("stdout", b"old\nbe", now - timedelta(hours=2)),
        LogPiece("stdout", b"gun\nnew\n", now),
    ]
    page = LogPage(AttemptId("attempt_1"), 0, 2, pieces, complete=False)
    server.plays(f"/v1/tasks/{task.id}/logs", says(page), log_page(2))
    assert user.run("logs", task.id, "--since", "10m").stdout == b"begun\nnew\n"
    assert user.run("logs", task.id, "--since", "soon").status == 64


def test_following_begins_with_the_last_lines_and_shows_all_that_come(
    user: CommandLine, server: FakeServer, task: TaskView
) -> None:
    server.plays(
        f"/v1/tasks/{task.id}/logs", log_page(0, ("stdout", b"1\n2\n"), ("stdout", b"3\n"))
    )
    server.plays(f"/v1/tasks/{task.id}/logs?attempt=2&offset=2", log_page(2))
    running = an_ended_task()
    server.plays(
        f"/v1/tasks/{task.id}/follow",
        streams(
            log_event(1, 0, ("stdout", b"1\n2\n")),
            log_event(2, 1, ("stdout", b"3\n"), ("stdout", b"4\n5\n")),
            state_event(3, running),
        ),
    )
    assert running.state is TaskState.FAILED
    result = user.run("logs", "-f", task.id, "--tail", "1")
    assert result.stdout == b"3\n4\n5\n"


def test_a_line_is_selected_once_it_is_complete() -> None:
    selector = LineSelector(LineSelection(grep="b"))
    assert selector.feed([LogPiece("stdout", b"a\nbe")]) == []
    assert selector.feed([LogPiece("stdout", b"gin\nb")]) == [LogPiece("stdout", b"begin\n")]
    assert selector.end() == [LogPiece("stdout", b"b")]


def test_lines_of_an_item(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.RUNNING, attempt_count=1, items=ItemCounts(9, 0, 0, 0))
    (attempt,) = an_ended_task().attempts
    ranged_attempt = replace(attempt, items=ItemRange(0, 9))
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([ranged_attempt])))
    pieces = [("potluck", b"item 1:\n"), ("stdout", b"a\nb\nc\n"), ("potluck", b"item 2:\n")]
    page = log_page(0, *pieces, ("stdout", b"d\n"))
    server.plays(f"/v1/tasks/{task.id}/logs", page, log_page(4))
    result = user.run("logs", task.id, "--item", "1", "--tail", "2")
    assert (result.stdout, result.stderr) == (b"b\nc\n", "")
