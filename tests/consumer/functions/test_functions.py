"""Functions through a real server, on a node that answers as the test likes."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.dispatch import get_dispatch
from potluck.model.blob import Value
from potluck.model.error import BadSettings, InvalidInput, RemoteError, TaskFailed, UntrustedResult
from potluck.model.lease import Lease
from potluck.model.task import EndReason, TaskState
from potluck.wire import item_file, plain_values
from potluck.wire.consumer import TaskView
from potluck.wire.provider import Finished, Grant, Report
from potluck.wire.results import ResultPiece
from tests.consumer.fake_node import FakeNode, fails_items, gives, gives_items, raises, raises_items
from tests.processes import ServerProcess, await_true

ERROR = {"type": "ValueError", "message": "no", "traceback": "Traceback …\n  in square"}


# What a node gives for it is whatever a test says.
Square = potluck.RemoteFunction[[int], Any]


def square(x: int) -> Any:
    return x * x


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def node(server: ServerProcess) -> Iterator[FakeNode]:
    with FakeNode(server, "answers").working() as working:
        yield working


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Potluck]:
    with Potluck(server.url, server.token) as client:
        yield client


@pytest.fixture
def remote(client: Potluck) -> Square:
    return potluck.task(square).using(client=client)


class Hostile:
    """Whoever unpickles it writes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.canary,)


def squares(grant: Grant, start: int, end: int) -> bytes:
    inputs = item_file.unpack(grant.spec.inputs.data, 100_000)  # type: ignore[union-attr]
    squared = [square(*pickle.loads(item)) for item in inputs[start:end]]
    return item_file.pack([plain_values.encode(value) for value in squared])


def test_a_call_gives_what_the_function_returned(node: FakeNode, remote: Square) -> None:
    node.answers = gives(plain_values.encode({"a": (1, b"x")}))
    future = remote.submit(3)
    assert future.result(30) == {"a": (1, b"x")}
    assert future.task_id.startswith("task_") and future.task_id.endswith("#0")
    spec = node.specs[-1]
    assert [pickle.loads(item) for item in item_file.unpack(spec.inputs.data, 1)] == [(3,)]
    assert pickle.loads(spec.code.data)(5) == 25
    assert (spec.name, spec.pickles_results) == ("square", False)


def test_an_exception_comes_back_in_words(node: FakeNode, remote: Square) -> None:
    node.answers = raises(plain_values.encode(ERROR))
    with pytest.raises(RemoteError) as raised:
        remote.submit(3).result(30)
    error = raised.value
    assert (str(error), error.type_name, error.message) == ("ValueError: no", "ValueError", "no")
    assert "in square" in error.traceback and "in square" in error.__notes__[0]
    copied_error = pickle.loads(pickle.dumps(error))
    assert (copied_error.type_name, copied_error.traceback) == (error.type_name, error.traceback)


def test_words_of_a_node_can_be_written_and_command_no_terminal() -> None:
    error_value = {"type": "E\x07", "message": "\ud800 \x1b[31mred\r", "traceback": "a\n\tb\x9b"}
    error = ValueDecoder().error(plain_values.encode(error_value), ResultPiece(0, 1, Value()))
    assert isinstance(error, RemoteError)
    assert (str(error), error.traceback) == ("E�: � �[31mred�", "a\n\tb�")


def test_a_task_that_ended_without_a_result_says_why(node: FakeNode, remote: Square) -> None:
    node.answers = lambda _, lease: [Finished(lease, EndReason.MEMORY_LIMIT)]
    with pytest.raises(TaskFailed, match=r"failed: .*memory"):
        remote.submit(3).result(30)


def test_a_failure_without_an_exception_has_the_end_of_stderr(
    node: FakeNode, remote: Square
) -> None:
    lines = "\x1b[2Jloading\nSegmentation fault"
    killed = "it was killed by SIGSEGV"
    node.answers = fails_items(EndReason.SIGNAL, killed, last_lines=lines)
    with pytest.raises(TaskFailed, match=r"killed by SIGSEGV: Segmentation fault\.") as raised:
        remote.submit(3).result(30)
    text = "".join(traceback.format_exception(raised.value))
    assert "The end of its stderr:\n�[2Jloading\nSegmentation fault\n`potluck logs" in text


def test_a_failed_item_without_an_exception_has_the_end_of_its_stderr(
    node: FakeNode, remote: Square
) -> None:
    node.answers = fails_items(EndReason.SIGNAL, "it was killed", last_lines="loading\nno luck")
    (error,) = remote.map([1], return_exceptions=True)
    assert str(error).endswith("failed: it was killed: no luck.")
    assert "The end of its stderr:\nloading\nno luck" in error.__notes__


def test_a_hostile_pickle_is_never_opened(node: FakeNode, remote: Square, tmp_path: Path) -> None:
    """As a result, as an exception, as an item of an array and as the error of one."""
    canary = tmp_path / "it ran"
    hostile = pickle.dumps(Hostile(canary))
    node.answers = gives(hostile)
    with pytest.raises(UntrustedResult, match="is not plain data, and is not decoded"):
        remote.submit(3).result(30)
    node.answers = raises(hostile)
    with pytest.raises(UntrustedResult, match="is not plain data, and is not decoded"):
        remote.submit(3).result(30)
    good = plain_values.encode(9)
    node.answers = gives_items(
        lambda _, start, end: item_file.pack(
            [hostile if item == 1 else good for item in range(start, end)]
        )
    )
    results = list(remote.map([1, 2, 3], return_exceptions=True))
    assert [results[0], results[2]] == [9, 9]  # it is no matter to its neighbours
    assert isinstance(results[1], UntrustedResult)
    node.answers = raises_items(hostile)
    assert all(
        isinstance(result, UntrustedResult) for result in remote.map([1], return_exceptions=True)
    )
    assert not canary.exists()
    pickle.loads(hostile)
    assert canary.exists(), "the canary would have told"


def test_pickles_are_opened_from_named_wallets_only(
    node: FakeNode, remote: Square, server: ServerProcess, tmp_path: Path
) -> None:
    node.answers = gives(pickle.dumps(Path("/made/by/a/pickle")))
    assert remote.using(allow_pickle=True).submit(3).result(30) == Path("/made/by/a/pickle")
    assert node.specs[-1].pickles_results
    stranger = ResultPiece(0, 1, Value(), wallet="0xbad")
    hostile = pickle.dumps(Hostile(tmp_path / "it ran"))
    failed_value = ValueDecoder(frozenset({server.wallet.address.lower()})).value(hostile, stranger)
    assert isinstance(failed_value, FailedValue) and isinstance(failed_value.error, UntrustedResult)
    assert not (tmp_path / "it ran").exists()
    with pytest.raises(InvalidInput, match="No owner in owner="):
        remote.using(allow_pickle=True, owner=["0x" + "12" * 20]).submit(3)


def test_map_keeps_the_order_of_its_inputs(node: FakeNode, remote: Square) -> None:
    node.answers = gives_items(squares)
    assert list(remote.map(range(500))) == [x * x for x in range(500)]
    assert sorted(remote.map(range(100), ordered=False)) == [x * x for x in range(100)]
    assert list(remote.map([])) == []


def test_an_item_that_failed_raises_when_its_turn_comes(node: FakeNode, remote: Square) -> None:
    node.answers = raises_items(plain_values.encode(ERROR))
    results = remote.map([1, 2])
    for _ in range(2):
        with pytest.raises(RemoteError, match="ValueError: no"):
            next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_an_item_that_failed_without_an_exception_has_a_reason(
    node: FakeNode, remote: Square
) -> None:
    slow = "it ran longer than its 2 s"
    node.answers = fails_items(EndReason.TIME_LIMIT, slow)
    errors = list(remote.map([1, 2], return_exceptions=True))
    assert [str(error).split(" failed: ")[1] for error in errors] == [f"{slow}."] * 2
    node.answers = fails_items(EndReason.MEMORY_LIMIT, "")
    with pytest.raises(
        TaskFailed, match=r"^Item 0 of the task \w+ failed: it used more memory than it requested\."
    ):
        next(remote.map([1]))


def test_a_generator_is_read_as_far_as_results_are_asked_for(
    node: FakeNode, remote: Square, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.consumer.functions.inputs.ARRAY_ITEMS", 10)
    monkeypatch.setattr("potluck.consumer.functions.inputs._READ_ITEMS", 10)
    monkeypatch.setattr("potluck.consumer.functions.mapping._AHEAD_ITEMS", 40)
    node.answers = gives_items(squares)
    read = 0

    def inputs() -> Iterator[int]:
        nonlocal read
        while read < 100:
            read += 1
            yield read

    results = remote.map(inputs())
    assert read == 10, "the first array goes out at once, and no other before it is asked for"
    most_ahead = 0
    for count, value in enumerate(results, 1):
        assert value == count * count
        most_ahead = max(most_ahead, read - count)
    assert count == read == 100 and most_ahead <= 50


def test_an_abandoned_map_is_cancelled(node: FakeNode, remote: Square, client: Potluck) -> None:
    may_end = threading.Event()

    def waits(grant: Grant, lease: Lease) -> list[Report]:
        may_end.wait(30)
        return gives_items(squares)(grant, lease)

    node.answers = waits
    try:
        results = remote.map(range(10))
        assert potluck.flush(30)
        (task_id,) = results.task_ids
        del results
        await_true(
            lambda: client.tasks.get(task_id).state is TaskState.CANCELLED, "it is called off"
        )
    finally:
        node.accepts_refusals = True
        may_end.set()


def test_a_future_calls_its_task_off(node: FakeNode, remote: Square, client: Potluck) -> None:
    unplaceable = remote.using(label=["nowhere"])
    future, other = unplaceable.submit(1), unplaceable.submit(2)
    assert potluck.flush(30) and future.task_id is not None
    assert future.cancel() and future.cancelled()
    assert client.tasks.get(future.task_id).state is TaskState.CANCELLED
    with pytest.raises(futures.CancelledError):
        future.result(0)
    done, waiting = futures.wait([future, other], 5, futures.FIRST_COMPLETED)
    assert done == {future} and waiting == {other}
    assert other.task_id is not None
    client.tasks.cancel(other.task_id)  # by somebody else
    with pytest.raises(TaskFailed, match="was cancelled"):
        other.result(30)


def test_a_cancelled_future_is_cancelled_also_when_its_end_arrives_first(
    node: FakeNode, remote: Square, client: Potluck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the call may reach the future before the answer to its cancellation."""
    unplaceable = remote.using(label=["nowhere"])
    future, other = unplaceable.submit(1), unplaceable.submit(2)
    send = client.tasks.cancel
    ended: list[bool] = []

    def cancel(task_id: str) -> TaskView:
        task = send(task_id)
        ended.append(bool(futures.wait([future], 30).done))
        return task

    assert potluck.flush(30)
    monkeypatch.setattr(client.tasks, "cancel", cancel)
    assert future.cancel() and future.cancelled() and ended == [True]
    assert other.cancel()


def test_a_refusal_is_no_matter_to_the_others(node: FakeNode, remote: Square) -> None:
    node.answers = gives(plain_values.encode(9))
    bad = remote.using(file={"a": __file__, "a/b": __file__})
    calls = [remote.submit(1), bad.submit(2), remote.submit(3)]
    assert [calls[0].result(30), calls[2].result(30)] == [9, 9]
    with pytest.raises(InvalidInput):
        calls[1].result(30)


def test_large_code_and_arguments_go_as_blobs(node: FakeNode, client: Potluck) -> None:
    node.answers = gives(plain_values.encode(1))
    large = os.urandom(300_000)

    def has_much(data: bytes) -> bool:
        return data == large

    bound_remote = potluck.task(has_much).using(client=client)
    assert bound_remote.submit(large).result(30) == 1
    spec = node.specs[-1]
    assert spec.code.blob is not None and spec.inputs.blob is not None
    assert spec.inputs.blob.size_bytes > 300_000 and not spec.inputs.data


def test_other_pythons_are_reported_before_anything_is_sent(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, node: FakeNode
) -> None:
    monkeypatch.setattr("potluck.consumer.functions.dispatch.PYTHON", "3.99")
    with Potluck(server.url, server.token) as client:
        before = client.tasks.list()
        bound_remote = potluck.task(square).using(client=client)
        with pytest.raises(
            InvalidInput, match=r"This is Python 3\.99, and the pool has only Python 3"
        ):
            bound_remote.submit(1).result(30)
        with pytest.raises(InvalidInput, match=r"This is Python 3\.99"):
            next(bound_remote.map([1]))
        assert client.tasks.list() == before


def test_many_threads_submit_at_once(node: FakeNode, remote: Square) -> None:
    node.answers = gives(plain_values.encode(9))
    with futures.ThreadPoolExecutor(8) as threads:
        calls = list(threads.map(remote.submit, range(40)))
    assert len({call.result(60) for call in futures.as_completed(calls, 60)}) == 1
    assert len({call.task_id for call in calls}) == 40


def test_a_forked_child_has_a_line_of_its_own(node: FakeNode, remote: Square) -> None:
    node.answers = gives(plain_values.encode(9))
    future = remote.submit(1)
    assert future.result(30) == 9
    results = remote.map([])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            reply = str(remote.submit(2).result(30))
            for belongs_to_parent in (future.result, future.cancel, lambda: next(results)):
                with contextlib.suppress(BadSettings):
                    belongs_to_parent()
                    reply = "it answered for its parent"
            os.write(writing, reply.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        output = pipe.read()
    os.waitpid(child, 0)
    assert output == b"9"
    assert remote.submit(3).result(30) == 9


def test_closing_a_client_ends_all_waits(server: ServerProcess, node: FakeNode) -> None:
    with Potluck(server.url, server.token) as client:
        future = potluck.task(square).using(client=client, label=["nowhere"]).submit(1)
        names = {thread.name for thread in threading.enumerate()}
        assert "potluck-sender" in names
    with pytest.raises(BadSettings, match="The client was closed"):
        future.result(5)
    assert future.task_id is not None, "what was submitted is sent before it closes"
    with Potluck(server.url, server.token) as client:
        client.tasks.cancel(future.task_id)


PROGRAM = """
    import potluck

    @potluck.task(label=["nowhere"])
    def square(x):
        return x * x

    future = square.submit(3)
    print("over", flush=True)
    future.result()
"""


def _program(server: ServerProcess, source: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "POTLUCK_URL": server.url, "POTLUCK_TOKEN": server.token}
    command = [sys.executable, "-c", textwrap.dedent(source)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_ctrl_c_ends_a_program_that_waits(server: ServerProcess, node: FakeNode) -> None:
    with _program(server, PROGRAM) as program:
        assert program.stdout is not None and program.stdout.readline() == "over\n"
        program.send_signal(signal.SIGINT)
        assert program.wait(30) != 0


def test_a_client_has_one_dispatch(client: Potluck) -> None:
    assert get_dispatch(client) is get_dispatch(client)
