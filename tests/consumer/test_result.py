"""What became of a task, in one object: against a server that says what a test likes."""

import hashlib
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from potluck.consumer import Potluck, Result
from potluck.model import error
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.model.usage import Usage
from potluck.wire import item_file, plain_values
from potluck.wire.consumer import (
    AttemptPage,
    AttemptView,
    FailedItem,
    FailedItemPage,
    ItemCounts,
    LogPage,
    LogPiece,
    TaskView,
)
from potluck.wire.files import TaskFiles
from potluck.wire.results import ResultPiece, Results, TaskResult
from tests.consumer.fake_server import FakeServer, Scene, a_task, hang_up, refuses, says
from tests.consumer.test_client import HASTE

ATTEMPT = AttemptId("attempt_1")
PICTURE = b"\x89PNG and so on"
NAMED = NamedFile("plots/a.png", BlobRef(hashlib.sha256(PICTURE).hexdigest(), len(PICTURE)))
KEPT_UNTIL = datetime(2026, 2, 3, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake


@pytest.fixture
def client(server: FakeServer) -> Iterator[Potluck]:
    with Potluck(server.url, "secret", HASTE) as client:
        yield client


def attempt(number: int = 1, **used: Any) -> AttemptView:
    return AttemptView(
        ATTEMPT,
        number,
        AttemptState.SUCCEEDED,
        NodeId("node_1"),
        "attic",
        [],
        KEPT_UNTIL,
        usage=Usage(**used),
    )


def over(**changes: Any) -> TaskView:
    usual = {
        "kind": "function",
        "exit_code": 0,
        "charge_micro": 1_500_000,
        "attempts": [attempt(run_seconds=2.0)],
        "kept_until": KEPT_UNTIL,
    }
    return a_task(changes.pop("state", TaskState.SUCCEEDED), **{**usual, **changes})


def looked_at(
    server: FakeServer, client: Potluck, task: TaskView, *task_results: TaskResult
) -> Result:
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays("/v1/results", *(says(Results([task_result])) for task_result in task_results))
    return client.results.get(task.id)


def gave(task: TaskView, data: bytes, is_error: bool = False, wallet: str = "") -> TaskResult:
    piece = ResultPiece(0, 1, Value(data), is_error, NodeId("node_1"), wallet)
    return TaskResult(task.id, task.state, 1, [piece], task.reason, task.detail)


def test_known_fields_need_one_request(server: FakeServer, client: Potluck) -> None:
    result = looked_at(server, client, over())
    assert (result.state, result.ok, result.exit_code) == (TaskState.SUCCEEDED, True, 0)
    assert (result.cost_micro, result.cost) == (1_500_000, 1.5)
    assert (result.kept_until, result.usage) == (KEPT_UNTIL, Usage(run_seconds=2.0))
    assert (result.name, result.detail, result.reason) == ("hello", "", None)
    assert repr(result) == f"<Result of hello ({result.task_id}): succeeded>"
    assert repr(result.files).endswith("not listed yet>")
    assert len(server.requests) == 1


def test_a_value(server: FakeServer, client: Potluck) -> None:
    task = over()
    result = looked_at(server, client, task, gave(task, plain_values.encode({"best": (1, 2)})))
    assert result.value == {"best": (1, 2)}
    (item,) = result.items
    assert (item.index, item.ok, item.value) == (0, True, {"best": (1, 2)})
    assert list(result.values) == [{"best": (1, 2)}]


def test_a_remote_exception_is_raised_as_text(server: FakeServer, client: Potluck) -> None:
    task = over(state=TaskState.FAILED, reason=EndReason.EXCEPTION)
    error_value = {"type": "ValueError", "message": "no", "traceback": "…"}
    result = looked_at(
        server, client, task, gave(task, plain_values.encode(error_value), is_error=True)
    )
    with pytest.raises(error.RemoteError, match="ValueError: no"):
        _ = result.value
    (item,) = result.items
    assert isinstance(item.error, error.RemoteError) and not item.ok


def test_a_large_value_is_brought_and_checked(server: FakeServer, client: Potluck) -> None:
    task, data = over(), plain_values.encode("x" * 100)
    blob = BlobRef(hashlib.sha256(data).hexdigest(), len(data))
    task_result = TaskResult(task.id, task.state, 1, [ResultPiece(0, 1, Value(blob=blob))])
    result = looked_at(server, client, task, task_result)
    server.plays(f"/v1/blobs/{blob.sha256}", Scene(200, data))
    assert result.value == "x" * 100
    small = client.results.get(task.id, max_result_bytes=10)
    with pytest.raises(error.UntrustedResult, match="the limit is 10"):
        _ = small.value


def test_why_there_is_no_value(server: FakeServer, client: Potluck) -> None:
    script = looked_at(server, client, over(kind="script"))
    with pytest.raises(error.InvalidInput, match="is a script, which returns no value"):
        _ = script.value
    running = looked_at(server, client, over(state=TaskState.RUNNING))
    with pytest.raises(error.Conflict, match="has not ended yet"):
        _ = running.value
    task = over(state=TaskState.FAILED, reason=EndReason.MEMORY_LIMIT, kept_until=None)
    task_result = TaskResult(task.id, task.state, 0, [], task.reason)
    with pytest.raises(error.TaskFailed, match="more memory"):
        _ = looked_at(server, client, task, task_result).value
    task = over()
    empty_result = looked_at(server, client, task, TaskResult(task.id, task.state, 0))
    with pytest.raises(error.NotFound, match="no longer kept since 2026-02-03"):
        _ = empty_result.value


def test_pickles_are_opened_from_named_wallets_only(server: FakeServer, client: Potluck) -> None:
    task, wallet = over(), "0x" + "ab" * 20
    task_result = gave(task, pickle.dumps({1, 2}), wallet="0x" + "CD" * 20)
    result = looked_at(server, client, task, task_result)
    with pytest.raises(error.UntrustedResult):
        _ = result.value
    me = {
        "id": "account_1",
        "address": wallet,
        "roles": [],
        "signed_in_by": "key",
        "scopes": [],
        "available_micro": 0,
        "held_micro": 0,
    }
    server.plays("/v1/me", says(me))
    with pytest.raises(error.UntrustedResult, match="not loaded"):
        _ = client.results.get(task.id, allow_pickle=True).value
    named_result = client.results.get(task.id, allow_pickle=True, from_wallets=["0x" + "cd" * 20])
    assert named_result.value == {1, 2}


def piece(start: int, *values: object) -> ResultPiece:
    packed = item_file.pack([plain_values.encode(value) for value in values])
    return ResultPiece(start, start + len(values), Value(packed))


def test_items_of_an_array_come_in_order(server: FakeServer, client: Potluck) -> None:
    task = over(items=ItemCounts(8, 0, 6, 2))
    failed = ResultPiece(
        4, 5, Value(plain_values.encode({"type": "KeyError", "message": "4"})), is_error=True
    )
    pages = [
        TaskResult(task.id, task.state, 2, [piece(2, "c", "d"), failed], has_more=True),
        TaskResult(task.id, task.state, 4, [piece(0, "a", "b"), piece(6, "g", "h")]),
    ]
    result = looked_at(server, client, task, *pages)
    items = list(result.items)
    assert [item.index for item in items] == list(range(8))
    assert [item.value for item in items if item.ok] == ["a", "b", "c", "d", "g", "h"]
    assert isinstance(items[4].error, error.RemoteError)
    assert isinstance(items[5].error, error.TaskFailed), "nobody ever told of it"
    values = looked_at(server, client, task, *pages).values
    assert [next(values) for _ in range(4)] == ["a", "b", "c", "d"]
    with pytest.raises(error.RemoteError, match="KeyError: 4"):
        next(values)
    assert b'"behind":2' in server.requests[-1].body


def test_items_that_came_twice_count_once(server: FakeServer, client: Potluck) -> None:
    task = over(items=ItemCounts(3, 0, 3, 0))
    task_result = TaskResult(task.id, task.state, 3, [piece(0, 1, 2), piece(1, 2, 3), piece(0, 1)])
    assert looked_at(server, client, task, task_result).value == [1, 2, 3]


def test_failed_items_of_an_array_of_programs(server: FakeServer, client: Potluck) -> None:
    task = over(kind="script", items=ItemCounts(3, 0, 2, 1))
    result = looked_at(server, client, task)
    failed = FailedItem(1, 1, True, ATTEMPT, EndReason.EXIT_STATUS, 3)
    second_failure = FailedItem(2, 1, False, ATTEMPT, EndReason.EXIT_STATUS, 3)
    server.plays(f"/v1/tasks/{task.id}/items", says(FailedItemPage([failed, second_failure])))
    assert list(result.failed_items) == [failed]
    with pytest.raises(error.InvalidInput, match="is not an array"):
        _ = looked_at(server, client, over()).failed_items


def test_an_array_used_what_all_its_attempts_used(server: FakeServer, client: Potluck) -> None:
    task = over(items=ItemCounts(2, 0, 2, 0))
    result = looked_at(server, client, task)
    first = attempt(1, run_seconds=1.0, memory_peak_bytes=5, energy_joules=2.0)
    second = attempt(2, run_seconds=2.0, memory_peak_bytes=3)
    path = f"/v1/tasks/{task.id}/attempts"
    server.plays(path, says(AttemptPage([second], 2)), says(AttemptPage([first])))
    assert result.usage == Usage(run_seconds=3.0, memory_peak_bytes=5, energy_joules=2.0)


def log_page(*pieces: tuple[str, bytes], offset: int = 0, **changes: Any) -> Scene:
    log_pieces = [LogPiece(*fields) for fields in pieces]
    return says(
        LogPage(
            ATTEMPT, offset, offset + len(log_pieces), log_pieces, **{"complete": True, **changes}
        )
    )


def test_output_and_log_are_read(server: FakeServer, client: Potluck) -> None:
    task = over(kind="script")
    result = looked_at(server, client, task)
    path = f"/v1/tasks/{task.id}/logs"
    server.plays(
        path,
        log_page(("stdout", b"1\n"), ("stderr", b"oh\xff"), complete=False),
        log_page(("stdout", b"2\n"), ("potluck", b"installed"), offset=2),
    )
    request_count = len(server.requests)
    assert result.stdout == "1\n2\n"
    assert (result.stderr, result.logs.remarks) == ("oh\ufffd", "installed")
    assert result.logs.read_bytes("stderr") == b"oh\xff"
    assert result.logs.text == "1\noh\ufffd2\ninstalled"
    assert [log.stream for log in result.logs] == ["stdout", "stderr", "stdout", "potluck"]
    assert len(server.requests) - request_count == 2, "a complete log is read once"
    assert "attempt=1" in server.requests[-1].path


def test_the_log_of_one_item(server: FakeServer, client: Potluck) -> None:
    task = over(kind="script", items=ItemCounts(9, 0, 9, 0))
    result = looked_at(server, client, task)
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([attempt(7)])))
    server.plays(f"/v1/tasks/{task.id}/logs", log_page(("stdout", b"of seven")))
    assert result.log(item=3).stdout == "of seven"
    assert "attempt=7" in server.requests[-1].path
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([])))
    with pytest.raises(error.NotFound, match="item 12"):
        result.log(item=12)


def test_a_log_that_is_no_longer_kept_is_not_an_empty_one(
    server: FakeServer, client: Potluck
) -> None:
    task = over(kind="script")
    result = looked_at(server, client, task)
    server.plays(f"/v1/tasks/{task.id}/logs", log_page(cleared=True))
    with pytest.raises(error.NotFound, match="no longer kept"):
        _ = result.stdout
    assert result.logs.cleared and list(result.logs) == []
    task = over(kind="script", attempts=[])
    assert looked_at(server, client, task).stdout == "", "none has begun"


def test_files_are_listed_once_read_and_brought(
    server: FakeServer, client: Potluck, tmp_path: Path
) -> None:
    task = over(kind="script")
    result = looked_at(server, client, task)
    table = NamedFile("t.csv", BlobRef("0" * 64, 3))
    task_files = TaskFiles(1, [NAMED, table], KEPT_UNTIL)
    server.plays(f"/v1/tasks/{task.id}/files", says(task_files))
    server.plays(f"/v1/blobs/{NAMED.blob.sha256}", Scene(200, PICTURE))
    picture = result.files["plots/a.png"]
    assert (picture.path, picture.size_bytes) == ("plots/a.png", len(PICTURE))
    assert (picture.sha256, picture.media_type) == (NAMED.blob.sha256, "image/png")
    assert (result.files.attempt, result.files.cleared, len(result.files)) == (1, False, 2)
    assert [file.path for file in result.files.pictures] == ["plots/a.png"]
    assert [file.path for file in result.files.tables] == ["t.csv"]
    assert [file.path for file in result.files[:1]] == ["plots/a.png"]
    assert picture.read_bytes() == PICTURE
    with pytest.raises(error.UntrustedResult):
        picture.read_bytes(most_bytes=3)
    target = picture.download(tmp_path / "out")
    assert target == tmp_path / "out" / "plots" / "a.png" and target.read_bytes() == PICTURE
    request_count = len(server.requests)
    assert picture.download(tmp_path / "out") == target
    assert len(server.requests) == request_count, "what is there is not brought again"
    target.write_bytes(b"mine")
    second_path = picture.download(tmp_path / "out")
    assert (target.read_bytes(), second_path.read_bytes()) == (b"mine", PICTURE)
    assert picture.download(tmp_path / "out", overwrite=True) == target
    assert target.read_bytes() == PICTURE
    with pytest.raises(error.NotFound, match="left no file 'b'"):
        _ = result.files["b"]
    assert "a.png" in repr(result.files) and "a.png" in repr(picture)


def test_all_files_with_a_wrong_hash_among_them(
    server: FakeServer, client: Potluck, tmp_path: Path
) -> None:
    task = over(kind="script")
    result = looked_at(server, client, task)
    server.plays(f"/v1/tasks/{task.id}/files", says(TaskFiles(1, [NAMED])))
    path = f"/v1/blobs/{NAMED.blob.sha256}"
    server.plays(path, Scene(200, b"x" * len(PICTURE)))
    with pytest.raises(error.Conflict, match="its hash or size differs"):
        result.files.download(tmp_path)
    server.plays(path, Scene(200, chunks=(PICTURE[:4],), cut=True), Scene(206, PICTURE[4:]))
    assert result.files.download(tmp_path) == [tmp_path / "plots" / "a.png"]
    assert server.requests[-1].headers["Range"] == "bytes=4-", "it goes on where it was cut"


def test_waiting_goes_on_until_the_end(server: FakeServer, client: Potluck) -> None:
    running, ended_task = over(state=TaskState.RUNNING, attempts=[]), over()
    result = looked_at(server, client, running)
    no_results = says(Results([]))
    end_results = says(Results([TaskResult(running.id, TaskState.SUCCEEDED, 0)]))
    unavailable = refuses(error.Unavailable("Not now."))
    server.plays(
        "/v1/results",
        no_results,
        hang_up(),
        unavailable,
        unavailable,
        unavailable,
        unavailable,
        unavailable,
        no_results,
        end_results,
    )
    server.plays(f"/v1/tasks/{running.id}", says(ended_task))
    assert result.wait() is result
    assert (result.state, result.exit_code) == (TaskState.SUCCEEDED, 0)
    request_count = len(server.requests)
    assert result.wait(0) is result and len(server.requests) == request_count, "it is over"


def test_waiting_for_so_long_only(server: FakeServer, client: Potluck) -> None:
    result = looked_at(server, client, over(state=TaskState.RUNNING))
    server.plays("/v1/results", says(Results([])))
    with pytest.raises(TimeoutError, match="has not ended within"):
        result.wait(0.01)
    server.plays("/v1/results", refuses(error.NotFound("There is no task.")))
    with pytest.raises(error.NotFound):
        result.wait()
