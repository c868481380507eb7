"""`potluck.Executor()` as an executor like any other, through a real server.

The first half is what CPython's own tests ask of every executor, in our words.
"""

import asyncio
import contextlib
import functools
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.consumer.functions import executor as executor_module
from potluck.consumer.functions.dispatch import get_dispatch
from potluck.model.error import InvalidInput, RemoteError
from potluck.model.lease import Lease
from potluck.model.task import TaskState
from potluck.wire.provider import Grant, Report
from tests.consumer.fake_node import FakeNode, runs
from tests.processes import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def working(server: ServerProcess) -> Iterator[FakeNode]:
    with FakeNode(server, "executes").working() as working:
        yield working


@pytest.fixture
def node(working: FakeNode) -> Iterator[FakeNode]:
    working.answers = runs()
    working.tells_of_start = True
    working.accepts_refusals = True  # some tests call off what runs
    working.specs.clear()
    yield working
    working.answers = runs()


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Potluck]:
    with Potluck(server.url, server.token) as client:
        yield client


@pytest.fixture
def executor(client: Potluck) -> Iterator[potluck.Executor]:
    with potluck.Executor(client=client) as executor:
        yield executor


class Gate:
    """Holds up what runs until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_met = threading.Event()
        self._run = runs()

    def __call__(self, grant: Grant, lease: Lease) -> list[Report]:
        self.is_met.set()
        assert self.is_open.wait(30)
        return self._run(grant, lease)


def capture(*arguments: Any, **keywords: Any) -> Any:
    return arguments, keywords


def test_submit(executor: potluck.Executor, node: FakeNode) -> None:
    assert executor.submit(pow, 2, 8).result(30) == 256
    assert executor.submit(capture, 1, self=2, fn=3).result(30) == ((1,), {"fn": 3, "self": 2})
    with pytest.raises(TypeError):
        executor.submit()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        executor.submit(fn=capture, arg=1)  # type: ignore[call-arg]


def test_map(executor: potluck.Executor, node: FakeNode) -> None:
    assert list(executor.map(pow, range(10), range(10))) == list(map(pow, range(10), range(10)))
    three = executor.map(pow, range(10), range(10), chunksize=3)
    assert list(three) == list(map(pow, range(10), range(10)))
    assert list(executor.map(pow, [], [])) == []
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(pow, [1], [2], chunksize=0)


def test_map_raises_in_its_turn_and_is_over(executor: potluck.Executor, node: FakeNode) -> None:
    results = executor.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(RemoteError, match="ZeroDivisionError"):
        next(results)
    assert list(results) == [], "as a generator that has raised"


def test_map_has_so_much_time(executor: potluck.Executor, node: FakeNode) -> None:
    gate = Gate()
    node.answers = gate
    results = executor.map(abs, [-1], timeout=0.05)
    with pytest.raises(TimeoutError):
        next(results)
    gate.is_open.set()
    node.answers = runs()
    assert list(executor.map(abs, [-1], timeout=30)) == [1]


def test_a_future_of_many(executor: potluck.Executor, node: FakeNode) -> None:
    numbers_by_future: dict[futures.Future[int], int]
    numbers_by_future = {executor.submit(pow, 2, number): number for number in range(5)}
    powers = {
        numbers_by_future[future]: future.result()
        for future in futures.as_completed(numbers_by_future, 30)
    }
    assert powers == {number: 2**number for number in range(5)}
    finished, unfinished = futures.wait([executor.submit(abs, -3)], 30, futures.FIRST_COMPLETED)
    assert (len(finished), unfinished) == (1, set())
    failed = executor.submit(divmod, 1, 0)
    assert isinstance(failed.exception(30), RemoteError)
    callbacks: list[Any] = []
    failed.add_done_callback(callbacks.append)
    assert callbacks == [failed] and not failed.running()


def test_an_executor_that_was_shut_down_accepts_nothing(client: Potluck, node: FakeNode) -> None:
    executor = potluck.Executor(client=client)
    executor.shutdown()
    executor.shutdown()
    for call in (lambda: executor.submit(abs, 1), lambda: executor.map(abs, [1])):
        with pytest.raises(RuntimeError, match="after shutdown"):
            call()


def test_leaving_the_block_waits(client: Potluck, node: FakeNode) -> None:
    gate = Gate()
    node.answers = gate
    with potluck.Executor(client=client) as executor:
        future = executor.submit(abs, -7)
        results = executor.map(abs, [-1, -2])  # nobody reads it; it is computed all the same
        threading.Timer(0.2, gate.is_open.set).start()
    assert future.done() and future.result() == 7
    assert list(results) == [1, 2]


def test_shutdown_without_waiting_lets_calls_continue(client: Potluck, node: FakeNode) -> None:
    gate = Gate()
    node.answers = gate
    executor = potluck.Executor(client=client)
    future = executor.submit(abs, -7)
    executor.shutdown(wait=False)
    assert not future.done()
    gate.is_open.set()
    assert future.result(30) == 7


def open_after(gate: "Gate", cancelled: list[potluck.TaskFuture[Any]]) -> None:
    futures.wait(cancelled, 30)
    gate.is_open.set()


def test_calls_that_have_not_started_are_cancelled(client: Potluck, node: FakeNode) -> None:
    gate = Gate()
    node.answers = gate
    executor = potluck.Executor(client=client, cores=4)
    running = executor.submit(abs, -1)
    assert gate.is_met.wait(30)
    waiting = [executor.submit(abs, -2) for _ in range(3)]
    results = executor.map(abs, [-3])
    assert potluck.flush(30)
    opening = threading.Thread(target=open_after, args=(gate, waiting))
    opening.start()
    executor.shutdown(wait=True, cancel_futures=True)
    opening.join()
    assert running.result(30) == 1, "it was left to its end"
    assert [future.cancelled() for future in waiting] == [True] * 3
    with pytest.raises(potluck.TaskFailed, match="cancelled"):
        next(results)


def test_calls_that_are_being_sent_are_cancelled(
    client: Potluck, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = get_dispatch(client).sender
    send, is_sent, gate = sender._send, threading.Event(), threading.Event()

    def slow(submissions: Any) -> None:
        is_sent.set()
        assert gate.wait(30)
        send(submissions)

    monkeypatch.setattr(sender, "_send", slow)
    executor = potluck.Executor(client=client, label=["nowhere"])
    results = executor.map(abs, [-3], timeout=20)
    assert is_sent.wait(30)
    executor.shutdown(wait=False, cancel_futures=True)
    gate.set()
    with pytest.raises(potluck.TaskFailed, match="cancelled"):
        next(results)


@pytest.mark.parametrize("way", ["submit", "TaskMap"])
def test_calls_during_shutdown_are_refused_and_cancelled(
    client: Potluck, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    executor = potluck.Executor(client=client, label=["nowhere"])
    created: list[Any] = []
    make = getattr(executor_module, way)

    def late(*arguments: Any, **keywords: Any) -> Any:
        created.append(make(*arguments, **keywords))
        executor.shutdown()
        return created[0]

    monkeypatch.setattr(executor_module, way, late)
    calls: dict[str, Any] = {"submit": executor.submit, "TaskMap": executor.map}
    before = {task.id for task in client.tasks.list().tasks}
    with pytest.raises(RuntimeError, match="after shutdown"):
        calls[way](abs, [-1])
    assert potluck.flush(30)
    tasks = [task for task in client.tasks.list().tasks if task.id not in before]
    assert all(task.state is TaskState.CANCELLED for task in tasks), "or it was not even sent"


def test_a_forked_child_does_not_wait_for_its_parent(client: Potluck) -> None:
    executor = potluck.Executor(client=client, label=["nowhere"])
    future = executor.submit(abs, -1)
    results = executor.map(abs, [-1])
    reading, writing = os.pipe()
    with executor._lock:  # as another thread may hold it in that moment
        child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            executor.shutdown(cancel_futures=True)
            os.write(writing, b"left")
        os._exit(0)
    os.close(writing)
    readable, *_ = select.select([reading], [], [], 20)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        assert readable and pipe.read() == b"left"
    assert not future.done(), "what is the parent's goes on"
    executor.shutdown(cancel_futures=True)
    assert future.cancelled()
    with pytest.raises(potluck.TaskFailed, match=r"cancelled|called off"):
        next(results)


def test_cancelling_a_future_ends_its_task(client: Potluck, node: FakeNode) -> None:
    gate = Gate()
    node.answers = gate
    executor = potluck.Executor(client=client)
    future = executor.submit(abs, -1)
    assert gate.is_met.wait(30)
    assert future.cancel() and future.cancelled()
    with pytest.raises(futures.CancelledError):
        future.result(30)
    assert future.task_id is not None
    assert client.tasks.get(future.task_id).state is TaskState.CANCELLED
    gate.is_open.set()


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, number: int) -> int:
        return self.count + number

    def __call__(self, number: int) -> int:
        return self.count * number


HEARD: list[int] = []


def heard() -> int:
    return len(HEARD)


def test_functions_of_all_kinds(executor: potluck.Executor, node: FakeNode) -> None:
    decorated = potluck.task(capture)
    number, counter = 3, Counter()
    counter.count = 5
    calls: list[tuple[Any, tuple[Any, ...], Any]] = [
        (lambda x: x + number, (4,), 7),
        (functools.partial(pow, 2), (5,), 32),
        (functools.partial(functools.partial(capture, 1), 2), (3,), ((1, 2, 3), {})),
        (counter.add, (4,), 9),
        (counter, (4,), 20),
        (decorated, (1,), ((1,), {})),
        ("a,b".split, (",",), ["a", "b"]),
        (dict, ([("a", 1)],), {"a": 1}),
    ]
    submitted = [executor.submit(function, *arguments) for function, arguments, _ in calls]
    assert [future.result(30) for future in submitted] == [expected for *_, expected in calls]


def test_state_goes_as_it_is_now(executor: potluck.Executor, node: FakeNode) -> None:
    """As a pool of processes takes it; a decorated function goes as it was first."""
    counter = Counter()
    first = executor.submit(counter.add, 1)
    counter.count = 10
    assert (first.result(30), executor.submit(counter.add, 1).result(30)) == (1, 11)
    HEARD.clear()
    before = executor.submit(heard)
    HEARD.append(1)
    assert (before.result(30), executor.submit(heard).result(30)) == (0, 1)


def test_the_same_function_goes_as_the_same_bytes(
    executor: potluck.Executor, node: FakeNode
) -> None:
    """By them a node knows the interpreter that is warm for it."""

    def ask() -> Any:
        return executor.submit(lambda x: x + 1, 1).result(30)

    for _ in range(3):
        assert ask() == 2
        assert executor.submit(capture).result(30) == ((), {})
    assert len({spec.code.data for spec in node.specs}) == 2


def test_equal_calls_share_a_stream_whichever_objects_they_are_made_from(
    client: Potluck, executor: potluck.Executor, node: FakeNode
) -> None:
    counter, number = Counter(), 3
    makers: list[Callable[[], Any]] = [
        lambda: potluck.task(client=client)(capture).submit(1),
        lambda: potluck.task(capture).using(client=client, priority=-1).submit(1),
        lambda: executor.submit(counter.add, 1),
        lambda: executor.submit(lambda x: x + number, 1),
    ]
    calls = [[make() for _ in range(3)] for make in makers]
    futures.wait([future for alike in calls for future in alike], 30)
    streams = [{future.task_id.split("#")[0] for future in alike} for alike in calls]
    assert [len(alike) for alike in streams] == [1, 1, 1, 1]
    assert len(set().union(*streams)) == 4, "other functions and options have streams of their own"


def test_functions_that_return_no_value_are_refused(executor: potluck.Executor) -> None:
    async def coroutine() -> None: ...

    with pytest.raises(InvalidInput, match="is a coroutine or a generator"):
        executor.submit(coroutine)
    with pytest.raises(InvalidInput, match="no option 'max_workers'"):
        potluck.Executor(max_workers=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="cannot be pickled"):
        executor.submit(capture, threading.Lock())


def test_code_that_takes_an_executor(client: Potluck, node: FakeNode) -> None:
    """An event loop gives it work, and is not held up while that is sent."""

    async def program() -> list[int]:
        loop = asyncio.get_running_loop()
        with potluck.Executor(client=client) as executor:
            calls = [loop.run_in_executor(executor, pow, 2, number) for number in range(4)]
            return list(await asyncio.gather(*calls))

    assert asyncio.run(program()) == [1, 2, 4, 8]


def test_a_loop_is_not_held_up_by_a_slow_server(
    client: Potluck, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever has to be asked before a task is sent is asked by another thread."""
    gate = threading.Event()
    list_nodes = client.resources.nodes

    def slow() -> Any:
        assert gate.wait(30)
        return list_nodes()

    with Potluck(client.url, client.transport.bearer.token()) as other:  # type: ignore[union-attr]
        monkeypatch.setattr(other.resources, "nodes", slow)

        async def program() -> int:
            executor = potluck.Executor(client=other)
            started = time.monotonic()
            future = executor.submit(pow, 2, 5)
            assert time.monotonic() - started < 5
            gate.set()
            return await asyncio.wrap_future(future)

        assert asyncio.run(program()) == 32


def test_errors_while_sending_are_raised_by_the_future(client: Potluck) -> None:
    async def program() -> None:
        executor = potluck.Executor(client=client, secret=["NOT_SET_ANYWHERE"])
        with pytest.raises(InvalidInput, match="NOT_SET_ANYWHERE"):
            await asyncio.wrap_future(executor.submit(abs, 1))
        results = executor.map(abs, [1])
        with pytest.raises(InvalidInput, match="NOT_SET_ANYWHERE"):
            next(results)

    asyncio.run(program())


def test_a_cancelled_await_calls_the_task_off(client: Potluck, node: FakeNode) -> None:
    gate = Gate()
    node.answers = gate

    async def program() -> Any:
        future = potluck.Executor(client=client).submit(abs, -1)
        await asyncio.to_thread(gate.is_met.wait, 30)
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.wrap_future(future)
        assert time.monotonic() - started < 5
        return future

    future = asyncio.run(program())
    assert future.cancelled()
    assert potluck.flush(30), "the server was told by another thread"
    assert client.tasks.get(future.task_id).state is TaskState.CANCELLED
    gate.is_open.set()


def test_a_cancelled_await_sends_no_request(
    client: Potluck, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    node.answers = gate
    cancelled_ids: list[str] = []
    monkeypatch.setattr(client.tasks, "cancel", cancelled_ids.append)

    async def program() -> None:
        future = potluck.Executor(client=client).submit(abs, -1)
        await asyncio.to_thread(gate.is_met.wait, 30)
        assert future.cancel() and future.cancelled()

    asyncio.run(program())
    assert cancelled_ids == [], "another thread tells the server"
    gate.is_open.set()
    assert potluck.flush(30)
