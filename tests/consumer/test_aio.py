"""Futures, maps, streams and calls in an event loop, which none of them holds up."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from itertools import chain, pairwise
from typing import Any

import pytest

import potluck
from potluck import aio
from potluck.consumer import Potluck
from potluck.model.error import InvalidInput, RemoteError
from potluck.model.task import TaskState
from potluck.wire.consumer import FollowedState
from tests.consumer.fake_node import FakeNode, runs
from tests.consumer.fake_server import FakeServer, a_task, state_event, streams
from tests.consumer.functions.test_executor import Gate
from tests.consumer.test_client import HASTE
from tests.processes import ServerProcess, await_true


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def working(server: ServerProcess) -> Iterator[FakeNode]:
    with FakeNode(server, "awaited").working() as working:
        yield working


@pytest.fixture
def node(working: FakeNode) -> FakeNode:
    working.answers = runs()
    working.tells_of_start = True
    working.accepts_refusals = True
    return working


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Potluck]:
    with Potluck(server.url, server.token) as client:
        yield client


def half(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


@pytest.fixture
def remote(client: Potluck) -> potluck.RemoteFunction[[int], int]:
    return potluck.task(half).using(client=client)


@asynccontextmanager
async def loop_that_goes_on(longest_seconds: float = 1.0) -> AsyncIterator[None]:
    """Nobody holds it up for so long; this machine is shared, and has its own pauses."""
    pauses = [time.monotonic()]

    async def beat() -> None:
        while True:
            await asyncio.sleep(0.01)
            pauses.append(time.monotonic())

    beat_task = asyncio.create_task(beat())
    try:
        yield
    finally:
        beat_task.cancel()
        pauses.append(time.monotonic())
        longest = max(b - a for a, b in pairwise(pauses))
        assert longest < longest_seconds, f"the loop stood for {longest:.2f} s"


async def test_a_future_is_awaited(node: FakeNode, remote: Any) -> None:
    async with loop_that_goes_on():
        assert await remote.submit(8) == 4
        assert await asyncio.gather(*(remote.submit(2 * n) for n in range(4))) == [0, 1, 2, 3]
        with pytest.raises(RemoteError, match="3 is odd"):
            await remote.submit(3)


async def test_a_group_of_tasks(node: FakeNode, remote: Any) -> None:
    async def ask(number: int) -> int:
        doubled: int = await remote.submit(number)
        return doubled

    async with asyncio.TaskGroup() as group:
        group_tasks = [group.create_task(ask(2 * n)) for n in range(3)]
    assert [task.result() for task in group_tasks] == [0, 1, 2]
    with pytest.raises(ExceptionGroup) as error_info:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(5))
    assert [isinstance(exception, RemoteError) for exception in error_info.value.exceptions] == [
        True
    ]


async def test_a_cancelled_await_calls_off_and_a_shielded_one_does_not(
    node: FakeNode, remote: Any, client: Potluck
) -> None:
    gate = Gate()
    node.answers = gate
    shielded = remote.submit(6)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.shield(shielded)
    assert not shielded.done()
    cancelled_call = remote.submit(8)
    async with loop_that_goes_on():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await cancelled_call
    assert cancelled_call.cancelled()
    await aio.call(potluck.flush)  # else the node may answer before the server knows
    gate.is_open.set()
    assert await shielded == 3
    if cancelled_call.task_id is not None:
        state = (await aio.call(client.tasks.get, cancelled_call.task_id)).state
        assert state is TaskState.CANCELLED


async def test_a_map_is_iterated(node: FakeNode, remote: Any) -> None:
    async with loop_that_goes_on():
        doubled = [value async for value in remote.map(range(0, 600, 2))]
    assert doubled == list(range(300))
    results = remote.map([2, 3, 4])
    values = aiter(results)
    assert await anext(values) == 1
    with pytest.raises(RemoteError, match="3 is odd"):
        await anext(values)
    assert await anext(values) == 2, "it goes on behind the one that failed"
    with pytest.raises(StopAsyncIteration):
        await anext(values)
    with pytest.raises(InvalidInput, match="cannot be pickled"):
        await anext(aiter(remote.map([threading.Lock()])))


async def test_a_cancelled_iteration_loses_no_result(node: FakeNode, remote: Any) -> None:
    gate = Gate()
    node.answers = gate
    results = remote.map([2, 4])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await anext(aiter(results))
    gate.is_open.set()
    assert [value async for value in results] == [1, 2]


def test_an_iteration_continues_in_another_event_loop() -> None:
    gate = threading.Event()

    def gated() -> Iterator[int]:
        assert gate.wait(30)
        yield from range(3)

    numbers = aio.each(gated())

    async def in_time(seconds: float) -> list[int]:
        async with asyncio.timeout(seconds):
            return [number async for number in numbers]

    with pytest.raises(TimeoutError):
        asyncio.run(in_time(0.02))
    gate.set()
    assert asyncio.run(in_time(30)) == [0, 1, 2], "and none is lost"


async def test_two_share_one_iteration() -> None:
    numbers = aio.each(iter(range(50)))

    async def read() -> list[int]:
        return [number async for number in numbers]

    async with asyncio.timeout(30):
        shares = await asyncio.gather(read(), read(), read())
    assert sorted(chain(*shares)) == list(range(50)), "each has what the others have not"


async def test_a_closed_map_is_called_off(node: FakeNode, remote: Any, client: Potluck) -> None:
    gate = Gate()
    node.answers = gate
    results = remote.map([2, 4])
    waiting = asyncio.ensure_future(anext(aiter(results)))
    await asyncio.to_thread(gate.is_met.wait, 30)
    (task_id,) = results.task_ids
    waiting.cancel()
    await aiter(results).aclose()
    gate.is_open.set()

    def is_cancelled() -> bool:
        return client.tasks.get(task_id).state is TaskState.CANCELLED

    await asyncio.to_thread(await_true, is_cancelled, "it is called off")


async def test_a_stream_is_followed(client: Potluck) -> None:
    with FakeServer().running() as fake, Potluck(fake.url, "secret", HASTE) as other:
        task = a_task(TaskState.RUNNING)
        ended_task = a_task(TaskState.SUCCEEDED, id=task.id)
        events = [state_event(number, task) for number in range(3)] + [state_event(3, ended_task)]
        fake.plays(f"/v1/tasks/{task.id}/follow", streams(*events))
        async with loop_that_goes_on():
            events_seen = [event async for event in other.tasks.follow(task.id)]
    states = [event.task.state for event in events_seen if isinstance(event, FollowedState)]
    assert states == [TaskState.RUNNING] * 3 + [TaskState.SUCCEEDED]


async def test_any_call_and_anything_iterated(client: Potluck) -> None:
    name = ContextVar("name", default="nobody")
    name.set("somebody")
    assert await aio.call(name.get) == "somebody"
    assert (await aio.call(client.account.me)).address
    assert [entry async for entry in aio.each(client.ledger.entries())] == []
    assert [number async for number in aio.each([1, 2, 3])] == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        await aio.call(divmod, 1, 0)


async def test_a_cancelled_call_continues_in_its_thread() -> None:
    gate, ended = threading.Event(), threading.Event()

    def slow() -> None:
        gate.wait(30)
        ended.set()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await aio.call(slow)
    gate.set()
    assert await asyncio.to_thread(ended.wait, 30)


async def test_a_generator_is_closed_and_let_go() -> None:
    class Kept:
        pass

    closed = threading.Event()
    argument = Kept()
    alive = weakref.ref(argument)

    def counting(argument: object) -> Iterator[int]:
        try:
            yield from range(1_000_000)
        finally:
            closed.set()

    async with aio.each(counting(argument)) as numbers:
        del argument
        async for number in numbers:
            if number == 2:
                break
    assert await asyncio.to_thread(closed.wait, 30)
    with pytest.raises(StopAsyncIteration):
        await anext(numbers)
    del numbers
    gc.collect()
    assert alive() is None


async def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "_IDLE_SECONDS", 0.01)
    numbers = aio.each(iter(range(3)))
    assert await anext(numbers) == 0

    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate()}

    await asyncio.to_thread(await_true, lambda: "potluck-each" not in threads(), "it ended")
    assert [number async for number in numbers] == [1, 2], "and another goes on"
