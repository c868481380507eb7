"""The threads between a program and the server, on a network that misbehaves."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

import potluck
from potluck.consumer import Potluck
from potluck.consumer.functions import collector
from potluck.consumer.functions.call_stream import CallStream
from potluck.consumer.functions.decode_value import ValueDecoder
from potluck.consumer.functions.dispatch import Fetches, UploadedFunction, get_dispatch
from potluck.consumer.functions.future import CallFuture
from potluck.consumer.functions.sender import Submission, SubmitQueue
from potluck.model.blob import BlobRef, Value
from potluck.model.error import (
    BadSettings,
    InvalidInput,
    PotluckError,
    ServerUnreachable,
    Unavailable,
)
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskRequest, TaskState
from potluck.model.task_spec import FunctionSpec
from potluck.wire import item_file, plain_values
from potluck.wire.codec import decode_json, encode_packed
from potluck.wire.consumer import NodeList
from potluck.wire.files import Upload
from potluck.wire.results import (
    AppendItems,
    AskResults,
    ItemsAppended,
    ResultPiece,
    Results,
    SubmitTasks,
    Submitted,
    TaskResult,
    TasksSubmitted,
)
from tests.consumer.fake_server import FakeServer, Request, Scene, a_task, hang_up, refuses, says
from tests.consumer.test_client import HASTE
from tests.processes import await_true

BATCH, RESULTS = "/v1/tasks/batch", "/v1/results"
TASK_ID = TaskId("task_01jd0000000000000000000001")
OTHER_ID = TaskId("task_01jd0000000000000000000002")
REQUEST = TaskRequest(FunctionSpec("f", Value(b"code"), Value(b"inputs"), "3.11"))
BUSY = Unavailable("Not now.", retry_after_seconds=0.001)


def knows_no_streams(server: FakeServer) -> None:
    """It is of an earlier version, so calls are tasks."""
    server.plays("/v1/tasks", refuses(InvalidInput("Unknown field `is_stream`.")))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        fake.plays("/v1/nodes", says(NodeList([])))
        fake.plays(BATCH, _taken(TASK_ID))
        knows_no_streams(fake)
        yield fake


@pytest.fixture
def client(server: FakeServer) -> Iterator[Potluck]:
    patient = replace(HASTE, read_seconds=5.0, give_up_seconds=5.0)
    with Potluck(server.url, "secret", patient) as client:
        yield client


def add(x: int) -> int:
    return x + 1


class Addressee:
    def __init__(self) -> None:
        self.task_id: TaskId | None = None
        self.error: PotluckError | None = None

    def submitted(self, task_id: TaskId) -> None:
        self.task_id = task_id

    def refused(self, error: PotluckError) -> None:
        self.error = error


def _taken(*task_ids: TaskId) -> Scene:
    return says(TasksSubmitted([Submitted(task_id) for task_id in task_ids]), 201)


def _results(*results: TaskResult) -> Scene:
    kind = {"Content-Type": "application/msgpack"}
    return Scene(200, encode_packed(Results(list(results))), kind)


def _over(task_id: TaskId, value: object) -> TaskResult:
    pieces = [ResultPiece(0, 1, Value(plain_values.encode(value)))]
    return TaskResult(task_id, TaskState.SUCCEEDED, 1, pieces, EndReason.COMPLETED)


def _items(task_id: TaskId, *values: object) -> TaskResult:
    data = item_file.pack([plain_values.encode(value) for value in values])
    pieces = [ResultPiece(0, len(values), Value(data))]
    return TaskResult(task_id, TaskState.SUCCEEDED, 1, pieces, EndReason.COMPLETED)


def _sent(server: FakeServer, path: str) -> list[Request]:
    return [request for request in server.requests if request.path == path]


def test_a_list_without_an_answer_is_sent_again_under_its_key(
    server: FakeServer, client: Potluck
) -> None:
    server.plays(BATCH, *[hang_up()] * 6, refuses(BUSY), _taken(TASK_ID))
    server.plays(RESULTS, _results(_over(TASK_ID, 7)))
    assert potluck.task(add).using(client=client).submit(1).result(10) == 7
    sent = _sent(server, BATCH)
    assert len(sent) == 8 and len({request.headers["Idempotency-Key"] for request in sent}) == 1
    assert len({request.body for request in sent}) == 1


def test_results_of_consecutive_submissions_are_polled_together(
    server: FakeServer, client: Potluck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_GATHER_SECONDS", 1.0)
    server.plays(BATCH, _taken(TASK_ID), _taken(OTHER_ID))
    server.plays(RESULTS, _results(_over(TASK_ID, 7), _over(OTHER_ID, 8)))
    function = potluck.task(add).using(client=client)
    first_future = function.submit(1)
    assert potluck.flush(10)
    assert (function.submit(2).result(10), first_future.result(10)) == (8, 7)
    (results_request,) = _sent(server, RESULTS)
    assert {task.task_id for task in decode_json(results_request.body, AskResults).tasks} == {
        TASK_ID,
        OTHER_ID,
    }


def test_an_unreadable_list_is_sent_one_by_one(server: FakeServer, client: Potluck) -> None:
    wrong = refuses(InvalidInput("One of them is nonsense."))
    server.plays(BATCH, hang_up(), wrong, _taken(TASK_ID), wrong)
    sender = SubmitQueue(client.transport)
    first_addressee, other = Addressee(), Addressee()
    with sender._turn:  # so that both go in one list
        sender.put(Submission(REQUEST, first_addressee))
        sender.put(Submission(REQUEST, other))
    assert sender.flush(10)
    sender.close()
    assert first_addressee.task_id == TASK_ID and isinstance(other.error, InvalidInput)
    sizes = [len(decode_json(request.body, SubmitTasks).tasks) for request in _sent(server, BATCH)]
    assert sizes == [2, 2, 1, 1]


def test_a_list_that_may_have_been_taken_is_not_sent_under_another_key(
    server: FakeServer, client: Potluck
) -> None:
    page = b"<html>The origin answered too late.</html>"
    sender = SubmitQueue(client.transport)
    for responses, expected_ids in (
        ([Scene(520, page), Scene(408, page), _taken(TASK_ID, OTHER_ID)], [TASK_ID, OTHER_ID]),
        ([Scene(201, page)], [None, None]),
    ):
        server.plays(BATCH, *responses)
        server.requests.clear()
        addressees = Addressee(), Addressee()
        with sender._turn:
            for addressee in addressees:
                sender.put(Submission(REQUEST, addressee))
        assert sender.flush(10)
        assert [addressee.task_id for addressee in addressees] == expected_ids
        sent = _sent(server, BATCH)
        assert len(sent) == len(responses)
        assert len({request.headers["Idempotency-Key"] for request in sent}) == 1
        assert {len(decode_json(request.body, SubmitTasks).tasks) for request in sent} == {2}
    assert all(isinstance(addressee.error, BadSettings) for addressee in addressees)
    sender.close()


def test_withdrawn_submissions_are_never_sent(server: FakeServer, client: Potluck) -> None:
    sender = SubmitQueue(client.transport)
    with sender._turn:
        sender.put(Submission(REQUEST, addressee := Addressee()))
        assert sender.take_back(addressee)
    assert sender.flush(10)
    sender.close()
    assert not _sent(server, BATCH)


def test_an_unencodable_task_is_refused_and_affects_no_other(
    server: FakeServer, client: Potluck
) -> None:
    broken = replace(REQUEST, secrets={"TOKEN": object()})
    sender = SubmitQueue(client.transport)
    first_addressee, other, later = Addressee(), Addressee(), Addressee()
    with sender._turn:
        sender.put(Submission(broken, first_addressee))
        sender.put(Submission(REQUEST, other))
    assert sender.flush(10)
    assert isinstance(first_addressee.error, InvalidInput) and other.task_id == TASK_ID
    sender.put(Submission(REQUEST, later))
    assert sender.flush(10) and later.task_id == TASK_ID, "the thread lives"
    sender.close()


def test_flush_waits_for_earlier_submissions_even_if_later_ones_are_withdrawn(
    client: Potluck,
) -> None:
    server = SlowAnswers()
    with server.running(), Potluck(server.url, "secret", client.transport.patience) as slow:
        sender = SubmitQueue(slow.transport)
        sender.put(Submission(REQUEST, first := Addressee()))
        await_true(lambda: _sent(server, BATCH), "the first is on its way")

        def take_back() -> None:
            sender.put(Submission(REQUEST, second := Addressee()))
            sender.take_back(second)

        take_back_timer = threading.Timer(0.05, take_back)
        take_back_timer.start()
        assert sender.flush(10) and first.task_id == TASK_ID
        take_back_timer.join()
        sender.close()


@pytest.fixture
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("potluck.consumer.functions.inputs.ARRAY_ITEMS", 2)
    monkeypatch.setattr("potluck.consumer.functions.inputs._READ_ITEMS", 2)


@pytest.mark.usefixtures("small_arrays")
def test_inputs_that_could_not_be_sent_are_sent_next_time(
    server: FakeServer, client: Potluck
) -> None:
    server.plays(BATCH, _taken(TASK_ID), _taken(OTHER_ID))
    server.plays(RESULTS, _results(_items(TASK_ID, 1, 2), _items(OTHER_ID, 3, 4)))
    server.plays("/v1/uploads", *[refuses(BUSY)] * HASTE.tries, says(Upload("", 1, 0, True)))
    large = b"x" * 300_000  # goes as a blob
    results = potluck.task(len).using(client=client).map([b"a", b"b", large, large])
    items_or_later: list[int | str] = []
    for _ in range(6):
        try:
            items_or_later.append(next(results))
        except Unavailable:
            items_or_later.append("later")
        except StopIteration:
            break
    assert sorted(map(str, items_or_later)) == ["1", "2", "3", "4", "later"]
    assert [result for result in items_or_later if result != "later"] == [1, 2, 3, 4]
    counts = [
        decode_json(request.body, SubmitTasks).tasks[0].items for request in _sent(server, BATCH)
    ]
    assert counts == [2, 2]


@pytest.mark.usefixtures("small_arrays")
def test_a_map_ends_at_an_input_that_cannot_be_sent(server: FakeServer, client: Potluck) -> None:
    server.plays(RESULTS, _results())
    results = potluck.task(str).using(client=client).map([1, 2, 3, threading.Lock(), 5, 6])
    with pytest.raises(InvalidInput, match="An argument cannot be pickled"):
        next(results)
    assert list(results) == []


@pytest.mark.usefixtures("small_arrays")
def test_an_array_is_not_called_off_once_its_results_are_here(
    server: FakeServer, client: Potluck
) -> None:
    running = replace(_items(TASK_ID, 1, 2), state=TaskState.RUNNING)
    server.plays(RESULTS, _results(running))
    results = potluck.task(abs).using(client=client).map([1, 2])
    await_true(lambda: results._inbox._news, "they are here, and nobody has looked")
    results.close()
    assert potluck.flush(10) and not _sent(server, f"/v1/tasks/{TASK_ID}/cancel")


def test_a_value_that_is_too_large_is_not_fetched(server: FakeServer, client: Potluck) -> None:
    data = plain_values.encode(10**3000)
    blob = BlobRef(hashlib.sha256(data).hexdigest(), len(data))
    pieces = [ResultPiece(0, 1, Value(blob=blob))]
    ended_result = TaskResult(TASK_ID, TaskState.SUCCEEDED, 1, pieces, EndReason.COMPLETED)
    server.plays(RESULTS, _results(ended_result))
    server.plays(path := f"/v1/blobs/{blob.sha256}", Scene(200, data))
    function = potluck.task(add).using(client=client)
    with pytest.raises(potluck.UntrustedResult, match="the limit is 1000"):
        function.using(max_result=1000).submit(1).result(10)
    assert not _sent(server, path)
    assert function.using(max_result="2KB").submit(1).result(10) == 10**3000


def test_a_cancelled_call_ends_as_cancelled_in_any_order_of_events(
    server: FakeServer, client: Potluck
) -> None:
    """Here the result comes before the answer to the cancellation."""
    ended_result = TaskResult(TASK_ID, TaskState.CANCELLED, 0, [], EndReason.CANCELLED)
    server.plays(RESULTS, _results())
    future = potluck.task(add).using(client=client).submit(1)
    assert potluck.flush(10)
    future._is_cancelling = True
    server.plays(RESULTS, _results(ended_result))
    await_true(future.done, "it has heard of it")
    assert future.cancelled() and future.cancel()


def test_large_values_are_fetched_by_a_few_threads() -> None:
    fetches, may_end, fetched = Fetches(), threading.Event(), threading.Semaphore(0)
    names = []

    def fetch() -> None:
        names.append(threading.current_thread())
        may_end.wait(30)
        fetched.release()

    for _ in range(20):
        fetches.put(fetch)
    fetches.close()
    await_true(lambda: len(names) == 4, "as many as there are threads")
    may_end.set()
    assert all(fetched.acquire(timeout=10) for _ in range(20))
    assert len(set(names)) == 4
    fetches.put(fetch)
    assert fetched.acquire(timeout=10), "also one that comes after the end"


def test_a_file_that_was_written_to_is_uploaded_again(
    server: FakeServer, client: Potluck, tmp_path: Path
) -> None:
    server.plays("/v1/uploads", says(Upload("", 1, 0, True)))
    server.plays(RESULTS, _results(_over(TASK_ID, 7)))
    (file := tmp_path / "file").write_text("one")
    function = potluck.task(add).using(client=client, file={"there": file})
    for text in ("one", "one", "another"):
        if text != file.read_text():
            file.write_text(text)
        assert function.submit(1).result(10) == 7
    assert len(_sent(server, "/v1/uploads")) == 2


def test_only_the_newest_uploaded_version_is_remembered() -> None:
    remembered = UploadedFunction()
    for version in range(3):
        blob = BlobRef(str(version) * 64, 1)
        assert remembered.get("code", version, partial(BlobRef, blob.sha256, 1)) == blob
        assert remembered.get("code", version, pytest.fail) == blob
    assert len(remembered._uploads) == 1


def test_a_server_that_is_away_for_a_while_costs_no_result(
    server: FakeServer, client: Potluck
) -> None:
    server.plays(RESULTS, hang_up(), refuses(BUSY), _results(), _results(_over(TASK_ID, 7)))
    assert potluck.task(add).using(client=client).submit(1).result(10) == 7


@pytest.mark.parametrize("knows_streams", [True, False])
def test_a_server_that_is_away_at_the_first_call_costs_no_result(
    server: FakeServer, client: Potluck, knows_streams: bool
) -> None:
    server.plays("/v1/nodes", *[hang_up()] * (HASTE.tries + 1), refuses(BUSY), says(NodeList([])))
    if knows_streams:
        server.plays("/v1/tasks", says(a_task(id=TASK_ID), 201))
    server.plays(RESULTS, _results(_items(TASK_ID, 7)))
    function = potluck.task(add).using(client=client)
    if knows_streams:
        assert function.submit(1).result(10) == 7
    else:
        assert list(function.map([1])) == [7]


def test_a_server_that_stays_away_is_reported_by_the_result(server: FakeServer) -> None:
    server.plays("/v1/nodes", hang_up())
    with Potluck(server.url, "secret", replace(HASTE, give_up_seconds=0.1)) as client:
        function = potluck.task(add).using(client=client)
        future, results = function.submit(1), function.map([1])
        with pytest.raises(ServerUnreachable, match="Nothing answers") as raised:
            future.result(10)
        assert "POTLUCK_URL" in raised.value.hint and "--server URL" in raised.value.hint
        with pytest.raises(ServerUnreachable):
            next(results)
    assert not _sent(server, BATCH) and not _sent(server, "/v1/tasks")


def test_an_unknown_task_is_reported_and_the_others_continue(
    server: FakeServer, client: Potluck
) -> None:
    not_found = refuses(potluck.model.error.NotFound("There is no such task of yours."))
    server.plays(BATCH, _taken(TASK_ID), _taken(OTHER_ID))
    server.plays(RESULTS, not_found)
    function = potluck.task(add).using(client=client)
    with pytest.raises(PotluckError, match="There is no such task"):
        function.submit(1).result(10)
    server.plays(RESULTS, _results(_over(OTHER_ID, 8)))
    assert function.submit(2).result(10) == 8


def test_a_poll_that_waits_is_asked_again_with_the_new_task(client: Potluck) -> None:
    """The first one is held open for as long as it likes; the second call does not wait for it."""
    server = SlowResults()
    with server.running():
        server.plays("/v1/nodes", says(NodeList([])))
        knows_no_streams(server)
        server.plays(BATCH, _taken(TASK_ID), _taken(OTHER_ID))
        with Potluck(server.url, "secret", client.transport.patience) as slow:
            function = potluck.task(add).using(client=slow)
            first = function.submit(1)
            await_true(lambda: _sent(server, RESULTS), "the first poll is under way")
            second = function.submit(2)
            assert second.result(3) == 9, "sooner than the poll would have been given up"
            assert not first.done()
            server.hangs.set()
            result_requests = [
                decode_json(request.body, AskResults) for request in _sent(server, RESULTS)
            ]
            assert [wanted_result.task_id for wanted_result in result_requests[0].tasks] == [
                TASK_ID
            ]
            assert result_requests[0].wait_seconds > 0.5


PROGRAM = """
import potluck

@potluck.task
def square(x):
    return x * x

calls = [square.submit(x) for x in range(5)]
"""


def test_submitted_tasks_are_sent_when_the_program_ends() -> None:
    """The first answer takes longer than the rest of the program."""
    server = SlowAnswers()
    with server.running():
        server.plays("/v1/nodes", says(NodeList([])))
        knows_no_streams(server)
        environment = {**os.environ, "POTLUCK_URL": server.url, "POTLUCK_TOKEN": "secret"}
        command = [sys.executable, "-c", PROGRAM]
        subprocess.run(command, env=environment, check=True, timeout=60)
    sent = [decode_json(request.body, SubmitTasks).tasks for request in _sent(server, BATCH)]
    assert sum(map(len, sent)) == 5


class SlowAnswers(FakeServer):
    """Takes half a second for a list."""

    def _next_scene(self, path: str) -> Scene:
        if path != BATCH:
            return super()._next_scene(path)
        count = len(decode_json(self.requests[-1].body, SubmitTasks).tasks)
        threading.Event().wait(0.5)
        return _taken(*[TASK_ID] * count)


class HeldResults(FakeServer):
    """Takes calls of a stream at once, and tells their results when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_tell = threading.Event()
        self.appended: list[int] = []  # by request

    def _next_scene(self, path: str) -> Scene:
        if path == f"/v1/tasks/{TASK_ID}/items":
            body = decode_json(self.requests[-1].body, AppendItems)
            self.appended.append(len(item_file.unpack(body.inputs, 100)))
            return says(ItemsAppended(body.start + self.appended[-1]), 201)
        if path != RESULTS:
            return super()._next_scene(path)
        if self.appended:
            self.may_tell.wait(30)
        (wanted,) = decode_json(self.requests[-1].body, AskResults).tasks
        count = 1 + sum(self.appended) - wanted.behind
        data = item_file.pack([plain_values.encode(7)] * count)
        pieces = [ResultPiece(wanted.behind, wanted.behind + count, Value(data))] if count else []
        result = TaskResult(TASK_ID, TaskState.RUNNING, wanted.behind + count, pieces)
        return _results(*[result] if count else [])


def test_a_call_waits_for_the_results_of_quick_calls_and_shares_the_next_request(
    client: Potluck,
) -> None:
    server = HeldResults()
    with server.running(), Potluck(server.url, "secret", client.transport.patience) as other:
        server.plays("/v1/nodes", says(NodeList([])))
        server.plays("/v1/tasks", says(a_task(id=TASK_ID), 201))
        function = potluck.task(add).using(client=other)
        assert function.submit(1).result(10) == 7
        sender = get_dispatch(other).calls
        (channel,) = sender._channels.values()
        assert channel.stream is not None
        turnaround = channel.stream._turnaround
        turnaround._seconds = turnaround._request_seconds = 30.0
        with sender._turn:  # so that both go in one request
            futures = [function.submit(2), function.submit(3)]
        await_true(lambda: server.appended, "they are under way")
        futures.append(function.submit(4))
        assert not sender.flush(0.2), "it is held back"
        server.may_tell.set()
        assert [future.result(10) for future in futures] == [7, 7, 7]
        assert server.appended == [2, 1]


def test_a_call_that_is_taken_back_while_others_may_join_it_stops_no_later_call(
    server: FakeServer, client: Potluck, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = potluck.task(add).using(client=client)
    sender = get_dispatch(client).calls
    let_others_add = sender._let_others_add
    is_gathering, is_taken_back = threading.Event(), threading.Event()

    def gather() -> None:
        is_gathering.set()
        assert is_taken_back.wait(10)
        let_others_add()

    monkeypatch.setattr(sender, "_let_others_add", gather)
    first_call = function.submit(1)
    assert is_gathering.wait(10) and first_call.cancel()
    is_taken_back.set()
    assert sender.flush(10)
    server.plays(RESULTS, _results(_over(TASK_ID, 7)))
    assert function.submit(2).result(10) == 7


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_call_that_is_sent_while_its_stream_ends_is_told_only_if_the_server_has_it(
    client: Potluck, is_accepted: bool
) -> None:
    """Otherwise the next stream gets it."""
    dispatch = get_dispatch(client)
    stream = CallStream(dispatch, ValueDecoder())
    stream.task_id, stream.items = TASK_ID, 1
    first_call, second_call = CallFuture[int](dispatch), CallFuture[int](dispatch)
    stream.expect(0, [first_call])
    stream.expect(1, [second_call])
    stream.receive(TaskResult(TASK_ID, TaskState.CANCELLED, 2, [], EndReason.CANCELLED))
    assert (first_call.done(), second_call.done()) == (True, False)
    if is_accepted:
        stream.acknowledged(1, 0.001)
        assert second_call.done(), "nothing else would tell it"
    else:
        stream.withdraw(1, 1)
        assert not second_call.done() and not stream.has_room(1)


class SlowResults(FakeServer):
    """Says nothing at all of the first task, and at once what there is of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = threading.Event()

    def _next_scene(self, path: str) -> Scene:
        if path != RESULTS:
            return super()._next_scene(path)
        results_request = decode_json(self.requests[-1].body, AskResults)
        if OTHER_ID in {wanted_result.task_id for wanted_result in results_request.tasks}:
            return _results(_over(OTHER_ID, 9))
        self.hangs.wait(30)
        return _results()
