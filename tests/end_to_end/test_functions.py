"""Warm interpreters of a real provider: two accounts apart, and given up for whoever wants more."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.provider.control.message import ProviderStatus, ShowStatus, WarmNow
from tests.control_request import ask_once
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true
from tests.wallets import Wallet

KEPT: list[str] = []


class Pool:
    """A server, its one node, and two consumers."""

    def __init__(self, directory: Path, server: ServerProcess) -> None:
        self._data = directory / "provider"
        self.own = Potluck(server.url, server.token)
        self.other = Potluck(server.url, server.sign_in(Wallet("somebody else")))

    def status(self) -> ProviderStatus:
        status = ask_once(self._data, ShowStatus())
        assert isinstance(status, ProviderStatus)
        return status

    def warm_when_idle(self) -> tuple[WarmNow, ...]:
        """None while an attempt runs, also one on a call stream that waits for more calls."""
        status = self.status()
        return () if status.attempts else status.warm


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    top = tmp_path_factory.mktemp("functions")
    with ServerProcess(top) as server, ProviderProcess(top, server, **FAST_PROVIDER):
        pool = Pool(top, server)
        with pool.own, pool.other:
            yield pool


def keep(word: str) -> tuple[str, list[str], list[str]]:
    """Which sandbox it is, and what it finds in memory and on disk before it adds to both."""
    born = Path("/proc/1/stat").read_text().split()[21]
    process_state = (born, list(KEPT), sorted(path.name for path in Path().glob("*.txt")))
    KEPT.append(word)
    Path(f"{word}.txt").write_text(word)
    return process_state


def test_two_accounts_with_the_same_code_never_meet(pool: Pool) -> None:
    own_keep, other_keep = (
        potluck.task(client=account_client)(keep) for account_client in (pool.own, pool.other)
    )

    first = own_keep.submit("mine").result(60)
    second = own_keep.submit("again").result(60)
    foreign = other_keep.submit("theirs").result(60)
    last = own_keep.submit("last").result(60)

    assert second == (first[0], ["mine"], ["mine.txt"]), "its own is warm"
    assert foreign[0] != first[0]
    assert foreign[1:] == ([], [])
    assert last[1:] in (([], []), (["mine", "again"], ["again.txt", "mine.txt"]))


def loads_a_model(number: int) -> tuple[int, bool]:
    """Its number, and whether it had to load."""
    has_to_load = not KEPT
    if has_to_load:
        KEPT.append("a model")
    return number, has_to_load


def test_a_load_is_paid_once_for_each_interpreter(pool: Pool) -> None:
    function = potluck.task(client=pool.own)(loads_a_model)
    results = list(function.map(range(20)))
    called = [function.submit(number).result(60) for number in range(3)]

    assert [number for number, _ in results] == list(range(20))
    assert [number for number, _ in called] == [0, 1, 2]
    assert sum(has_loaded for _, has_loaded in called) < 3, "not each of them"


def where() -> int:
    return os.getpid()


def test_idle_interpreters_are_reported_and_make_room_for_tasks(pool: Pool) -> None:
    potluck.task(client=pool.own)(where).submit().result(60)
    warm = await_true(pool.warm_when_idle, "an interpreter is idle")
    assert all(interpreter.memory_bytes > 2**20 for interpreter in warm)

    task = pool.own.tasks.submit(TaskRequest(ScriptSpec("script.py", "print('hello')")))
    ended_task = pool.own.tasks.wait(task.id)

    assert ended_task.state is TaskState.SUCCEEDED
    assert not set(_devices(warm)) & set(_devices(pool.status().warm))


def _devices(warm: tuple[WarmNow, ...]) -> list[str]:
    return [uuid for interpreter in warm for uuid in interpreter.devices]
