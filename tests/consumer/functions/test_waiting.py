"""Waiting for a call: its output, Ctrl-C, timeouts, and the id of its task."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.consumer.functions.call_output import VARIABLE, is_output_shown
from potluck.model.lease import Lease
from potluck.model.task import TaskState
from potluck.wire.provider import Grant, LogChunk, PackedLogPiece, Report
from tests.consumer.fake_node import FakeNode, gives
from tests.processes import ServerProcess, await_true

NONE = b"\xc0"


def call() -> None:
    """Runs on no node: the stand-in answers."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Potluck]:
    with Potluck(server.url, server.token) as client:
        yield client


@pytest.fixture
def remote(client: Potluck) -> potluck.RemoteFunction[[], None]:
    return potluck.task(client=client)(call)


def state_of(client: Potluck, task_id: str) -> TaskState:
    return client.tasks.get(task_id).state


def test_a_timeout_cancels_the_task_and_says_why_it_waits(
    client: Potluck, remote: potluck.RemoteFunction[[], None]
) -> None:
    future = remote.submit()
    task_id = future.task_id
    await_true(lambda: client.tasks.get(task_id).waiting, "the scheduler says why it waits")
    with pytest.raises(TimeoutError, match=rf"it is cancelled: call \({task_id}\): queued: ."):
        future.result(0.01)
    assert future.cancelled() and potluck.flush(30)
    assert state_of(client, task_id) is TaskState.CANCELLED


def test_a_timeout_of_a_map_cancels_the_rest(client: Potluck) -> None:
    results = potluck.task(client=client)(str).map([1, 2])
    assert potluck.flush(30)
    (task_id,) = results.task_ids
    await_true(lambda: client.tasks.get(task_id).waiting, "the scheduler says why it waits")
    reason = rf"the rest is cancelled: str \({task_id}\): queued: ."
    with pytest.raises(TimeoutError, match=reason):
        results.next(0.01)
    assert potluck.flush(30)
    assert state_of(client, task_id) is TaskState.CANCELLED


def test_a_task_with_keep_running_is_not_cancelled_by_a_timeout(
    client: Potluck, remote: potluck.RemoteFunction[[], None]
) -> None:
    future = remote.using(keep_running=True).submit()
    with pytest.raises(TimeoutError, match="it continues"):
        future.result(0.01)
    assert not future.cancelled()
    assert state_of(client, future.task_id) is TaskState.QUEUED
    assert future.cancel()


def test_ctrl_c_cancels_the_task(client: Potluck, remote: potluck.RemoteFunction[[], None]) -> None:
    future = remote.submit()
    task_id = future.task_id
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        future.result()
    assert potluck.flush(30)
    assert state_of(client, task_id) is TaskState.CANCELLED


def test_the_id_of_a_refused_task_raises_the_refusal(client: Potluck) -> None:
    future = potluck.task(client=client, after=["task_01m7gm2q85jfaf9jspxrgzrx1c"])(call).submit()
    with pytest.raises(potluck.PotluckError):
        _ = future.task_id


def test_output_of_a_call_is_shown_with_its_result(
    server: ServerProcess, client: Potluck, capfd: pytest.CaptureFixture[str]
) -> None:
    with FakeNode(server, "prints").working() as node:

        def answer(grant: Grant, lease: Lease) -> list[Report]:
            pieces = (("stdout", b"loss \x1b]52;c;x\x07 1\n"), ("stderr", b"warned\n"))
            packed = tuple(PackedLogPiece(stream, data) for stream, data in pieces)
            node.append_log(LogChunk(lease, 0, packed))
            return gives(NONE)(grant, lease)

        node.answers = answer
        loud = potluck.task(client=client, show_output=True)(call)
        future = loud.submit()
        assert future.result(30) is None and future.result() is None
        assert capfd.readouterr() == ("loss ^[]52;c;x^G 1\n", "warned\n"), "once"

        async def wait() -> None:
            await loud.submit()

        asyncio.run(wait())
        assert "loss" in capfd.readouterr().out
        potluck.task(client=client, show_output=False)(call).submit().result(30)
        assert capfd.readouterr() == ("", "")


def test_output_is_shown_in_terminals_unless_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert is_output_shown(None) and not is_output_shown(False)
    monkeypatch.setenv(VARIABLE, "off")
    assert not is_output_shown(None) and is_output_shown(True)
