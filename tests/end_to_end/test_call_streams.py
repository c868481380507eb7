"""Call streams on real processes: calls of their own, kills in the middle, and others who wait."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.consumer.http.transport import Patience
from potluck.model.task import EndReason, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from tests.cli.command_line import InProcess
from tests.end_to_end.database_check import check_truth
from tests.processes import (
    FAST_PROVIDER,
    ProviderProcess,
    ServerProcess,
    WholeServerProcess,
    await_true,
    free_port,
)
from tests.wallets import Wallet

ONE_CORE = {**FAST_PROVIDER, "POTLUCK_PROVIDER_CORES": "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    top = tmp_path_factory.mktemp("streams")
    with ServerProcess(top) as server, ProviderProcess(top, server, **ONE_CORE):
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Potluck]:
    with Potluck(server.url, server.token) as client:
        yield client


def say(number: int) -> int:
    print("I am", number)
    if number == 2:
        raise ValueError("not two")
    return number * number


def rest(seconds: float) -> float:
    import time

    time.sleep(seconds)
    return seconds


def say_and_rest(seconds: float) -> float:
    print("I rest", flush=True)
    return rest(seconds)


def test_each_call_has_its_own_result_error_log_and_address(
    client: Potluck, server: ServerProcess, tmp_path: Path
) -> None:
    function = potluck.task(client=client)(say)
    futures = [function.submit(number) for number in range(4)]
    assert [future.result(60) for future in futures if future is not futures[2]] == [0, 1, 9]
    with pytest.raises(potluck.RemoteError, match="not two"):
        futures[2].result(60)
    names = [future.task_id for future in futures]
    assert len({name.split("#")[0] for name in names}) == 1, "one stream"
    states = [client.tasks.get(name).state for name in names]
    done, failed = TaskState.SUCCEEDED, TaskState.FAILED
    assert states == [done, done, failed, done]
    assert client.results.get(names[3]).value == 9

    run = InProcess(tmp_path, server.url, server.token).run
    await_true(lambda: run("logs", names[1]).stdout == b"I am 1\n", "its output arrived")
    assert run("logs", names[3]).stdout == b"I am 3\n"
    assert b"succeeded" in run("status", names[0]).stdout
    assert b"ValueError: not two" in run("status", names[2]).stdout
    retried = json.loads(run("retry", names[1], "--json").stdout)
    assert client.results.get(retried["id"]).wait(timeout=60).value == 1


def test_a_call_that_runs_is_cancelled_alone(client: Potluck) -> None:
    function = potluck.task(client=client)(rest)
    assert function.submit(0.01).result(60) == 0.01
    long, short = function.submit(60.0), function.submit(0.02)
    await_true(
        lambda: client.tasks.get(long.task_id).state is TaskState.RUNNING, "the long one runs"
    )
    assert long.cancel()
    assert short.result(60) == 0.02
    assert client.tasks.get(long.task_id).state is TaskState.CANCELLED


def test_a_task_of_another_account_starts_beside_streams_without_a_gap(
    server: ServerProcess, client: Potluck
) -> None:
    """Two accounts keep the only core busy; the third waits for about one turn."""
    with ExitStack() as ending:
        others = [
            ending.enter_context(Potluck(server.url, server.sign_in(Wallet(name))))
            for name in ("busy one", "busy two")
        ]
        is_over = threading.Event()
        finished_counts = [0, 0]

        def keep_busy(place: int) -> None:
            function = potluck.task(client=others[place])(rest)
            while not is_over.is_set():
                for future in [function.submit(0.005) for _ in range(40)]:
                    future.result(60)
                    finished_counts[place] += 1

        threads = [threading.Thread(target=keep_busy, args=(place,)) for place in (0, 1)]
        for thread in threads:
            thread.start()
        try:
            await_true(lambda: min(finished_counts) > 0, "both streams are served")
            task = client.tasks.submit(TaskRequest(ScriptSpec("one.py", "print(1)")))
            started = time.monotonic()
            await_true(lambda: client.tasks.get(task.id).started_at, "it has started")
            seconds = time.monotonic() - started
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
    view = client.tasks.wait(task.id)
    assert view.started_at is not None
    waited = (view.started_at - view.created_at).total_seconds()
    assert min(waited, seconds) < 10, "two seconds on a quiet machine, which this may not be"


def test_a_killed_provider_tells_which_calls_it_may_have_run(tmp_path: Path) -> None:
    """It reads them in its journal. The call with an outcome is not run again, the other one is."""
    with ServerProcess(tmp_path) as server, ExitStack() as ending:
        provider = ending.enter_context(ProviderProcess(tmp_path, server, **ONE_CORE))
        client = ending.enter_context(Potluck(server.url, server.token))
        function = potluck.task(client=client)(say_and_rest)
        assert function.submit(0.01).result(60) == 0.01
        call = function.submit(2.0)
        run = InProcess(tmp_path, server.url, server.token).run
        await_true(lambda: run("logs", call.task_id).stdout, "the call runs")
        provider.kill()
        ending.enter_context(ProviderProcess(tmp_path, server, **ONE_CORE))
        assert call.result(60) == 2.0
        stream = client.tasks.get(call.task_id.split("#")[0])
    first, *later = stream.attempts
    assert (first.reason, len(later)) == (EndReason.NODE_RESTARTED, 1)
    assert first.detail.endswith("attempt. It may have run #1 to #1, which run again.")


class Killed:
    """A whole pool, parts of which are killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self.server = WholeServerProcess(directory, self._port)
        self.provider = self._provide()
        self.token = self.server.token

    def _provide(self) -> ProviderProcess:
        return ProviderProcess(self._directory, self.server, **FAST_PROVIDER)

    def kill_server(self) -> None:
        """And its PostgreSQL with it."""
        self.server.kill()
        self.server = WholeServerProcess(self._directory, self._port)

    def kill_provider(self) -> None:
        self.provider.kill()
        self.provider = self._provide()

    def end(self) -> None:
        self.provider.stop()
        self.server.stop()


def _survive(directory: Path, calls: int, kills: int) -> None:
    pool = Killed(directory)
    patience = Patience(give_up_seconds=300.0, read_seconds=20.0)
    try:
        with Potluck(pool.server.url, pool.token, patience) as client:
            function = potluck.task(client=client, attempts=100)(rest)
            assert function.submit(0.0).result(60) == 0.0
            futures = [function.submit(number / 1e9) for number in range(calls)]
            steps: list[Callable[[], None]] = [pool.kill_provider, pool.kill_server]
            for number in range(kills):
                part = calls * (number + 1) // (kills + 2)
                await_true(futures[part].done, "some calls are done", 300)
                steps[number % 2]()
            assert [future.result(300) for future in futures] == [
                number / 1e9 for number in range(calls)
            ]
            streams = {future.task_id.split("#")[0] for future in futures}
            views = [client.tasks.get(task_id) for task_id in streams]
            assert sum(view.items.succeeded for view in views if view.items) == calls + 1
            assert not sum(view.items.failed for view in views if view.items)
    finally:
        pool.end()
    check_truth(directory)


def test_calls_survive_that_everything_is_killed(tmp_path: Path) -> None:
    """Each has one accepted outcome; none is lost, and none is paid twice."""
    _survive(tmp_path, calls=1_200, kills=2)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
def test_twenty_thousand_calls_survive_that_everything_is_killed(
    tmp_path: Path, number: int
) -> None:
    _survive(tmp_path, calls=20_000, kills=4)


@pytest.mark.long
def test_two_accounts_with_streams_get_their_fair_share(server: ServerProcess) -> None:
    """Both want the only core all the time."""
    with ExitStack() as ending:
        clients = [
            ending.enter_context(Potluck(server.url, server.sign_in(Wallet(name))))
            for name in ("fair one", "fair two")
        ]
        functions = [potluck.task(client=account_client)(rest) for account_client in clients]
        futures = [[function.submit(0.01) for _ in range(4_000)] for function in functions]
        await_true(
            lambda: all(client_futures[0].done() for client_futures in futures),
            "both are served",
            60,
        )
        before = [sum(future.done() for future in client_futures) for client_futures in futures]
        threading.Event().wait(60)  # some sixty turns
        after = [sum(future.done() for future in client_futures) for client_futures in futures]
        served = [late - early for late, early in zip(after, before, strict=True)]
        for account_client, client_futures in zip(clients, futures, strict=True):
            account_client.tasks.cancel(client_futures[0].task_id.split("#")[0])
    assert abs(served[0] - served[1]) <= 0.1 * sum(served) / 2, served
