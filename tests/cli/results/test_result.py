"""`potluck result` of functions, and of tasks that used devices and left files."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from potluck.cli.results.file_preview import FilePreview
from potluck.cli.results.usage import show_usage
from potluck.local.media_size import MediaSize
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.model.usage import Usage
from potluck.wire import plain_values
from potluck.wire.consumer import AttemptView, LogPage, TaskView
from potluck.wire.files import TaskFiles
from potluck.wire.results import ResultPiece, Results, TaskResult
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, Scene, a_task, says, state_event, streams
from tests.local.test_media_size import png


def ended(server: FakeServer, task: TaskView, value: bytes, is_error: bool = False) -> None:
    """A call is over, and this is what its node answered."""
    piece = ResultPiece(0, 1, Value(value), is_error)
    task_result = TaskResult(task.id, task.state, 1, [piece])
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", says(LogPage(None, 0, 0, [], True)))
    server.plays("/v1/results", says(Results([task_result])))


def test_counts_of_one_are_singular() -> None:
    table = FilePreview(Path("t.csv"), 4, "text/csv", MediaSize(1, 2))
    assert table.about == "2 lines × 1 column, 4 B"


def test_the_value_of_a_function_is_shown(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.SUCCEEDED, kind="function")
    ended(server, task, plain_values.encode({"best": (1, 2)}))
    assert "returned   {'best': (1, 2)}" in user.run("result", task.id).stderr
    (document,) = user.run("result", task.id, "--json").lines()
    assert document["returned"] == {"best": [1, 2]}


def test_the_exception_of_a_function_is_shown(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.FAILED, kind="function", reason=EndReason.EXCEPTION, detail="K: v")
    error_value = {
        "type": "KeyError",
        "message": "'v'",
        "traceback": "Trace\n  a.py, line 1\x1b[2J",
    }
    ended(server, task, plain_values.encode(error_value), is_error=True)
    stderr = user.run("result", task.id).stderr
    assert "Trace\n  a.py, line 1�[2J\n" in stderr, "a terminal obeys nothing of it"
    (document,) = user.run("result", task.id, "--json").lines()
    assert document["raised"] == "KeyError: 'v'"


def test_a_number_that_is_too_long_is_reported(user: CommandLine, server: FakeServer) -> None:
    large = 2**20_000
    task = a_task(TaskState.SUCCEEDED, kind="function")
    ended(server, task, plain_values.encode([large]))
    assert "too long to show" in user.run("result", task.id).stderr
    (document,) = user.run("result", task.id, "--json").lines()
    assert "too long to show" in document["returned"]
    ended(server, task, plain_values.encode({"type": "E", "message": large}), is_error=True)
    assert user.run("result", task.id).status == 0


def test_a_pickle_is_never_opened(user: CommandLine, server: FakeServer, tmp_path: Path) -> None:
    canary = tmp_path / "ran"
    hostile = f"cos\nsystem\n(S'touch {canary}'\ntR.".encode()
    task = a_task(TaskState.SUCCEEDED, kind="function")
    for is_error in (False, True):
        ended(server, task, hostile, is_error)
        assert user.run("result", task.id).status == 0
        assert user.run("result", task.id, "--json").status == 0
    assert not canary.exists()


def test_files_are_brought_beside_the_story(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    task = a_task(TaskState.SUCCEEDED)
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", says(LogPage(None, 0, 0, [], True)))
    server.plays(f"/v1/tasks/{task.id}/files", says(TaskFiles(None, [])))
    result = user.run("result", task.id, "-o", tmp_path / "out")
    assert result.status == 0
    assert "It left no files: only files in $POTLUCK_OUTPUT are kept." in result.stderr
    (document,) = user.run("result", task.id, "-o", tmp_path / "out", "--json").lines()
    assert (document["directory"], document["files"]) == (str(tmp_path / "out"), [])


GONE = TaskFiles(None, [], kept_until=datetime(2026, 1, 3, 12, tzinfo=UTC), cleared=True)


@pytest.mark.parametrize(
    ("task_files", "sentence"),
    [
        (TaskFiles(1, [NamedFile("small", BlobRef("0" * 64, 1))]), "1 file, 1 B"),
        (TaskFiles(None, []), "it wrote 2 KiB, which were not accepted; `potluck logs"),
        (GONE, "no longer kept since 2026-01-03"),
    ],
    ids=["a part", "refused", "cleared"],
)
def test_only_existing_files_are_reported_as_present(
    user: CommandLine, server: FakeServer, task_files: TaskFiles, sentence: str
) -> None:
    """The node has written more than was taken, or than is still kept."""
    task = a_task(TaskState.SUCCEEDED, exit_code=0, attempts=[an_attempt(output_bytes=2048)])
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", says(LogPage(None, 0, 0, [], True)))
    server.plays(f"/v1/tasks/{task.id}/files", says(task_files))
    server.plays("/v1/tasks", says(task, 201))
    server.plays(f"/v1/tasks/{task.id}/follow", streams(state_event(1, task)))
    commands = [("result", task.id), ("files", task.id), ("run", "--command", "draw")]
    for command in commands:
        result = user.run(*command)
        assert result.status == 0 and sentence in result.stderr, command
        assert "2 KiB; " not in result.stderr and "2 KiB of files" not in result.stderr


def test_no_word_about_files_costs_a_task_its_status(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.FAILED, exit_code=3, attempts=[an_attempt(output_bytes=2048)])
    server.plays("/v1/tasks", says(task, 201))
    server.plays(f"/v1/tasks/{task.id}/follow", streams(state_event(1, task)))
    server.plays(f"/v1/tasks/{task.id}/files", Scene(404))
    result = user.run("run", "--command", "draw")
    assert result.status == 3 and "It left files; `potluck result" in result.stderr


@pytest.mark.parametrize("options", [(), ("-f",)], ids=["", "followed"])
def test_a_log_that_is_no_longer_kept_says_so(
    user: CommandLine, server: FakeServer, options: tuple[str, ...]
) -> None:
    task = a_task(TaskState.SUCCEEDED, exit_code=0, attempts=[an_attempt()])
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/follow", streams(state_event(1, task)))
    page = LogPage(task.attempts[0].id, 0, 0, [], complete=True, cleared=True)
    server.plays(f"/v1/tasks/{task.id}/logs", says(page))
    result = user.run("logs", task.id, *options)
    assert (result.status, result.stdout) == (0, b"")
    assert result.stderr == "potluck: its output is no longer kept\n"


def an_attempt(**used: float) -> AttemptView:
    occurred_at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return AttemptView(
        AttemptId("attempt_1"),
        1,
        AttemptState.SUCCEEDED,
        NodeId("node_1"),
        "attic",
        [],
        occurred_at,
        usage=msgspec.convert(used, Usage),
    )


def test_usage_of_an_attempt_as_text() -> None:
    plain = Usage(cpu_seconds=2, memory_peak_bytes=2**20, log_bytes=10)
    assert show_usage(plain) == "2.0 s of CPU time, 1 MiB of memory at its peak, 10 B of log"
    rich = replace(
        plain, device_seconds=90, energy_joules=7200, input_bytes=2**30, output_bytes=2048
    )
    assert show_usage(rich) == (
        "2.0 s of CPU time, 1 min 30 s of device time, 2 Wh of energy, 1 MiB of memory at its peak,"
        " 10 B of log, 1 GiB of files in, 2 KiB out"
    )


@pytest.mark.parametrize(
    "arguments", [("result", "-o", ""), ("run", "-o", "", "x.py"), ("run", "--folder", "", "x.py")]
)
def test_a_directory_without_a_name_is_not_the_one_where_one_is(
    user: CommandLine, arguments: tuple[str, ...]
) -> None:
    result = user.run(*arguments)
    assert (result.status, result.stdout) == (64, b"")
    assert "The name of a directory is empty." in result.stderr


def test_pictures_and_tables_are_shown_by_their_paths(
    user: CommandLine, server: FakeServer, tmp_path: Path
) -> None:
    task = a_task(TaskState.SUCCEEDED, attempts=[an_attempt(output_bytes=2048)])
    contents = {"a/plot.png": png(640, 480), "t.csv": b"a,b\n1,2\n", "notes.txt": b"well"}
    named_files = [
        NamedFile(path, BlobRef(hashlib.sha256(data).hexdigest(), len(data)))
        for path, data in contents.items()
    ]
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", says(LogPage(None, 0, 0, [], True)))
    server.plays(f"/v1/tasks/{task.id}/files", says(TaskFiles(1, named_files)))
    for file, data in zip(named_files, contents.values(), strict=True):
        server.plays(f"/v1/blobs/{file.blob.sha256}", Scene(200, data))
    out = tmp_path / "out"
    stderr = user.run("result", task.id, "-o", out).stderr
    assert f"picture  {out}/a/plot.png  640 × 480, 33 B\n" in stderr
    assert f"table    {out}/t.csv       2 lines × 2 columns, 8 B\n" in stderr
    assert "notes.txt" not in stderr and f"3 files, 45 B in {out}, checked\n" in stderr
    request_count = len(server.requests)
    (document,) = user.run("result", task.id, "-o", out, "--json").lines()
    assert [file.get("width") or file.get("rows") for file in document["files"]] == [640, 2, None]
    assert document["files"][2]["place"] == f"{out}/notes.txt"
    assert not any("/v1/blobs/" in request.path for request in server.requests[request_count:])
    assert "including 1 picture and 1 table" in user.run("result", task.id).stderr


def test_the_retention_is_shown(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.SUCCEEDED, kept_until=datetime(2999, 1, 2, 12, tzinfo=UTC))
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", says(LogPage(None, 0, 0, [], True)))
    assert "until 2999-01-02" in user.run("result", task.id).stderr


def test_after_the_retention_time_the_result_says_that_nothing_is_kept(
    user: CommandLine, server: FakeServer
) -> None:
    task = a_task(TaskState.SUCCEEDED, kept_until=GONE.kept_until, attempts=[an_attempt()])
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/logs", says(LogPage(None, 0, 0, [], True, cleared=True)))
    server.plays(f"/v1/tasks/{task.id}/files", says(GONE))
    result = user.run("result", task.id)
    assert "no longer since 2026-01-03: its output, result and files are deleted" in result.stderr
    (document,) = user.run("result", task.id, "--json").lines()
    assert (document["cleared"], document["stdout"]) == (True, "")
