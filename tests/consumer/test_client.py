"""The client against a server that misbehaves in every way that networks and people invent."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from potluck.consumer import Patience, Potluck
from potluck.consumer.http.transport import parse_retry_after
from potluck.model import error
from potluck.model.account import Scope
from potluck.model.backoff import BackOff
from potluck.model.blob import Value
from potluck.model.device import DeviceKind
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.store.new_ids import new_task_id
from potluck.wire.consumer import (
    AttemptPage,
    DevicePage,
    FailedItemPage,
    FollowedLog,
    FollowedState,
    ServerHealth,
    TaskPage,
)
from potluck.wire.results import ResultPiece, Results, TaskResult
from tests.consumer.fake_server import (
    FakeServer,
    Scene,
    a_task,
    hang_up,
    log_event,
    refuses,
    says,
    state_event,
    streams,
)
from tests.processes import free_port

HASTE = Patience(
    connect_seconds=1.0,
    read_seconds=1.0,
    back_off=BackOff(first_seconds=0.001, longest_seconds=0.01),
    longest_asked_pause_seconds=0.5,
    silence_seconds=0.2,
    give_up_seconds=0.3,
)
REQUEST = TaskRequest(ScriptSpec("hello.py", "print('hello')"))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake


@pytest.fixture
def potluck(server: FakeServer) -> Iterator[Potluck]:
    with Potluck(server.url, "secret", HASTE) as client:
        yield client


def test_submit_sends_the_request_with_token_and_key(server: FakeServer, potluck: Potluck) -> None:
    task = a_task()
    server.plays("/v1/tasks", says(task, 201))
    assert potluck.tasks.submit(REQUEST) == task
    (sent,) = server.requests
    assert sent.headers["Authorization"] == "Bearer secret"
    assert len(sent.headers["Idempotency-Key"]) >= 16
    assert b'"kind":"script"' in sent.body


def test_submit_is_repeated_with_the_same_key(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/tasks", hang_up(), refuses(error.Unavailable("later")), says(a_task(), 201))
    potluck.tasks.submit(REQUEST)
    keys = {request.headers["Idempotency-Key"] for request in server.requests}
    assert len(server.requests) == 3
    assert len(keys) == 1


def test_two_submits_have_two_keys(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/tasks", says(a_task(), 201))
    potluck.tasks.submit(REQUEST)
    potluck.tasks.submit(REQUEST)
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 2


def test_creating_an_api_key_is_retried_with_one_idempotency_key(
    server: FakeServer, potluck: Potluck
) -> None:
    server.plays("/v1/me/keys", hang_up(), refuses(error.Forbidden("No.")))
    with pytest.raises(error.Forbidden):
        potluck.account.make_key("ci", [Scope.TASKS_READ], 3600)
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1
    assert len(server.requests) == 2


def test_a_call_that_does_something_twice_is_not_repeated(
    server: FakeServer, potluck: Potluck
) -> None:
    server.plays("/v1/encryption/rotate", hang_up(), Scene(500))
    with pytest.raises(error.ServerUnreachable):
        potluck.admin.rotate_key(new_key=True)
    assert len(server.requests) == 1


def test_tries_come_to_an_end(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/me", refuses(error.Unavailable("The database starts.", "Wait a little.")))
    with pytest.raises(error.Unavailable, match="The database starts"):
        potluck.account.me()
    assert len(server.requests) == HASTE.tries


def test_permanent_errors_are_not_retried(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/me", refuses(error.NotSignedIn("Unknown token.", "Copy it again.")))
    with pytest.raises(error.NotSignedIn) as raised:
        potluck.account.me()
    assert raised.value.hint == "Copy it again."
    assert len(server.requests) == 1


def test_retry_after_is_honoured(server: FakeServer, potluck: Potluck) -> None:
    busy = refuses(error.RateLimited("Slow down.", retry_after_seconds=0.1))
    server.plays("/healthz", busy, says(ServerHealth("ok", "0.1.0")))
    started = datetime.now(UTC)
    assert potluck.health().status == "ok"
    assert (datetime.now(UTC) - started).total_seconds() >= 0.1


def test_a_long_retry_after_is_reported_instead_of_waited_for(
    server: FakeServer, potluck: Potluck
) -> None:
    server.plays("/healthz", refuses(error.RateLimited("Slow down."), **{"Retry-After": "3600"}))
    with pytest.raises(error.RateLimited) as raised:
        potluck.health()
    assert raised.value.retry_after_seconds == 3600
    assert len(server.requests) == 1


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("7", 7.0),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2015 00:00:30 GMT", 0.0),  # the past means now
        ("soon", None),
        ("-1", None),
    ],
)
def test_both_forms_of_retry_after(header: str | None, expected: float | None) -> None:
    assert parse_retry_after(header, NOW) == expected


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        # another program, a page of a proxy, half a document, the wrong document
        (Scene(200, b"<html>hi</html>"), error.BadSettings),
        (Scene(200, b'{"tasks": ['), error.BadSettings),
        (Scene(200, b"\xff\xfe"), error.BadSettings),
        (Scene(200, b"[" * 100_000), error.BadSettings),
        (Scene(200, b'{"tasks": [{"id": 1}]}'), error.BadSettings),
        (Scene(418, b"teapot"), error.BadSettings),
        (Scene(302, b"", {"Location": "http://127.0.0.1:1/"}), error.BadSettings),
        (Scene(404, b"<html>"), error.NotFound),
        (Scene(502, b"<html>"), error.Unavailable),
    ],
)
def test_garbage_is_an_error_of_ours(
    server: FakeServer, potluck: Potluck, scene: Scene, expected: type[error.PotluckError]
) -> None:
    server.plays("/v1/tasks", scene)
    with pytest.raises(expected) as raised:
        potluck.tasks.list()
    assert raised.value.hint


def test_an_unreachable_server_is_reported() -> None:
    client = Potluck(f"http://127.0.0.1:{free_port()}", "secret", HASTE)
    with pytest.raises(error.ServerUnreachable, match="is the server running") as raised:
        client.account.me()
    assert "potluck up" in raised.value.hint


def test_a_server_without_tls_is_not_reported_as_a_bad_certificate(server: FakeServer) -> None:
    client = Potluck(server.url.replace("http:", "https:"), "secret", HASTE)
    with pytest.raises(error.ServerUnreachable, match="does not use https"):
        client.account.me()


def test_a_silent_server_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = Potluck(url, "secret", Patience(read_seconds=0.05, tries=1))
        with pytest.raises(error.ServerUnreachable, match="too long"):
            client.account.me()


def test_the_query_has_only_the_given_filters(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/tasks", says(TaskPage([])))
    potluck.tasks.list(limit=5, states=[TaskState.FAILED])
    assert server.requests[0].path == "/v1/tasks?limit=5&state=failed"
    noon = datetime(2026, 1, 2, 13, tzinfo=timezone(timedelta(hours=1)))
    potluck.tasks.list(states=[TaskState.QUEUED, TaskState.RUNNING], name="a&b", since=noon)
    assert server.requests[1].path == (
        "/v1/tasks?state=queued&state=running&name=a%26b&since=2026-01-02T12%3A00%3A00%2B00%3A00"
    )


def test_devices_and_failed_items_come_in_pages(server: FakeServer, potluck: Potluck) -> None:
    server.plays("/v1/devices", says(DevicePage([])))
    assert (
        potluck.resources.devices(kind=DeviceKind.GPU, model="A100|H*", free_milli=250).devices
        == []
    )
    assert server.requests[0].path == "/v1/devices?kind=gpu&model=A100%7CH%2A&free_milli=250"
    task_id = new_task_id()
    server.plays(f"/v1/tasks/{task_id}/items", says(FailedItemPage([], 7)))
    assert potluck.tasks.failed_items(task_id, 3, 4).next_cursor == 7
    assert server.requests[1].path == f"/v1/tasks/{task_id}/items?cursor=3&limit=4"
    server.plays(f"/v1/tasks/{task_id}/attempts", says(AttemptPage([], 9)))
    assert potluck.tasks.attempts(task_id, 12, item=0).next_cursor == 9
    assert server.requests[2].path == f"/v1/tasks/{task_id}/attempts?cursor=12&item=0"


def test_the_results_of_a_task_without_any_yet(server: FakeServer, potluck: Potluck) -> None:
    running, ended_task = a_task(TaskState.RUNNING), a_task(TaskState.SUCCEEDED)
    task_result = TaskResult(
        ended_task.id, TaskState.SUCCEEDED, 1, [ResultPiece(0, 1, Value(b"1"))]
    )
    no_results, one_result = says(Results([])), says(Results([task_result]))
    server.plays(f"/v1/tasks/{running.id}", says(running))
    server.plays(f"/v1/tasks/{ended_task.id}", says(ended_task))
    server.plays("/v1/results", no_results, no_results, one_result)
    assert potluck.results.raw(running.id) == TaskResult(running.id, TaskState.RUNNING, 0)
    assert potluck.results.raw(ended_task.id) == task_result, "it ended between the two questions"


def test_an_id_cannot_leave_its_place_in_the_path(server: FakeServer, potluck: Potluck) -> None:
    with pytest.raises(error.NotFound):
        potluck.tasks.get("../me?x=1")
    assert server.requests[0].path == "/v1/tasks/..%2Fme%3Fx%3D1"


def follow_path(task_id: str) -> str:
    return f"/v1/tasks/{task_id}/follow"


def test_follow_survives_cuts_and_loses_and_doubles_nothing(
    server: FakeServer, potluck: Potluck
) -> None:
    queued = a_task()
    ended_task = a_task(TaskState.SUCCEEDED, id=queued.id, exit_code=0)
    second = log_event(3, 1, ("stderr", b"\xff\x00two"))
    server.plays(
        follow_path(queued.id),
        # cut in the middle of the second log event, after a keep-alive
        streams(
            state_event(1, queued),
            b": still here\n\n",
            log_event(2, 0, ("stdout", b"one")) + second[:30],
            cut=True,
        ),
        refuses(error.Unavailable("Restarting.")),
        hang_up(),
        # a clean end before the task is final is a cut too
        streams(second[:10], second[10:]),
        streams(state_event(4, ended_task)),
    )
    events = list(potluck.tasks.follow(queued.id))
    states = [event.task.state for event in events if isinstance(event, FollowedState)]
    logs = [event.page.pieces[0].data for event in events if isinstance(event, FollowedLog)]
    assert states == [TaskState.QUEUED, TaskState.SUCCEEDED]
    assert logs == [b"one", b"\xff\x00two"]
    resumed = [request.headers.get("Last-Event-ID") for request in server.requests]
    assert resumed == [None, "2", "2", "2", "3"]


def test_follow_goes_on_after_an_interruption(server: FakeServer, potluck: Potluck) -> None:
    queued = a_task()
    ended_task = a_task(TaskState.FAILED, id=queued.id)
    server.plays(
        follow_path(queued.id),
        streams(state_event(1, queued), state_event(2, queued)),
        streams(state_event(3, ended_task)),
    )
    follow = potluck.tasks.follow(queued.id)
    for _ in follow:
        break
    assert [event.task.state for event in follow if isinstance(event, FollowedState)] == ["failed"]
    assert server.requests[1].headers["Last-Event-ID"] == "1"


def test_follow_gives_up(server: FakeServer, potluck: Potluck) -> None:
    task = a_task()
    server.plays(follow_path(task.id), streams(state_event(1, task)), hang_up())
    gaps: list[error.PotluckError] = []
    with pytest.raises(error.ServerUnreachable):
        list(potluck.tasks.follow(task.id, gaps.append))
    assert gaps


@pytest.mark.parametrize("refusal", [error.InvalidInput, error.NotFound, error.MethodNotAllowed])
def test_a_refusal_by_a_server_of_another_version_says_so(
    server: FakeServer, potluck: Potluck, refusal: type[error.PotluckError]
) -> None:
    server.plays("/healthz", says(ServerHealth("ok", "0.0.9")))
    server.plays("/v1/tasks/task_1", refuses(refusal("There is no field `colour`.", "Fix it.")))
    for _ in range(2):
        with pytest.raises(refusal) as raised:
            potluck.tasks.get("task_1")
        assert raised.value.hint.startswith("Fix it. The server runs an earlier version")
    assert [request.path for request in server.requests].count("/healthz") == 1


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        (refuses(error.NotFound("No such task.")), error.NotFound),
        (Scene(200, b"<html>", {"Content-Type": "text/html"}), error.BadSettings),
        (streams(b"data: nonsense\n\n"), error.BadSettings),
    ],
)
def test_follow_does_not_retry_permanent_errors(
    server: FakeServer, potluck: Potluck, scene: Scene, expected: type[error.PotluckError]
) -> None:
    server.plays(follow_path("task_1"), scene)
    with pytest.raises(expected):
        list(potluck.tasks.follow("task_1"))
    assert [request.path for request in server.requests].count(follow_path("task_1")) == 1


def test_wait_returns_the_final_task(server: FakeServer, potluck: Potluck) -> None:
    queued = a_task()
    ended_task = a_task(TaskState.SUCCEEDED, id=queued.id, exit_code=0)
    server.plays(f"/v1/tasks/{queued.id}", says(queued))
    server.plays(
        follow_path(queued.id), streams(state_event(1, queued), state_event(2, ended_task))
    )
    assert potluck.tasks.wait(queued.id) == ended_task


@pytest.mark.parametrize("name", ["0x0000000000000000000000000000000000000001/data", "Data", "d"])
def test_a_volume_of_another_account_is_refused_before_anything_is_sent(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "a.txt").write_text("a")
    with Potluck("http://127.0.0.1:9", "a token", HASTE) as client:  # where nothing answers
        with pytest.raises(error.InvalidInput, match="name for your volume"):
            client.volumes.put(name, tmp_path)
        with pytest.raises(error.InvalidInput, match="name for your volume"):
            client.volumes.add(name, {"a.txt": tmp_path / "a.txt"})
