"""Functions as people write them, through a real server, provider and sandbox."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.model.error import RemoteError, TaskFailed
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess

LOADED: list[int] = []
OFFSET = 1_000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Potluck]:
    top = tmp_path_factory.mktemp("map")
    with (
        ServerProcess(top) as server,
        ProviderProcess(top, server, **FAST_PROVIDER),
        Potluck(server.url, server.token) as client,
    ):
        yield client


def _shifted(x: int) -> int:
    return x + OFFSET


@potluck.task
def shifted(x: int) -> int:
    return _shifted(x)  # of this module, which no node has


@potluck.task
def inverse(x: int) -> float:
    return 1 / x


@potluck.task(time=1)
def sleeps(seconds: int) -> int:
    time.sleep(seconds)
    return seconds


@potluck.task
def loads(_: int) -> int:
    if not LOADED:
        LOADED.append(os.getpid())  # as a model would be
    else:
        LOADED.append(0)
    return len(LOADED)


@potluck.task
def echo(data: bytes) -> tuple[str, bytes]:
    return hashlib.sha256(data).hexdigest(), data


@potluck.task
def reads() -> list[str]:
    import beside  # type: ignore[import-not-found]

    return [beside.WORD, Path("given.txt").read_text(), os.environ["TOKEN"]]


def test_ten_thousand_items_come_back_in_order(client: Potluck) -> None:
    inputs = range(10_000)
    assert list(shifted.using(client=client).map(inputs)) == [x + OFFSET for x in inputs]


def test_one_bad_item_fails_alone(client: Potluck) -> None:
    results = list(inverse.using(client=client).map([1, 0, 2], return_exceptions=True))
    assert [results[0], results[2]] == [1.0, 0.5]
    error = results[1]
    assert isinstance(error, RemoteError) and error.type_name == "ZeroDivisionError"
    assert "return 1 / x" in error.traceback or "in inverse" in error.traceback


def test_an_item_that_takes_too_long_says_so(client: Potluck) -> None:
    results = list(sleeps.using(client=client).map([0, 30, 0], return_exceptions=True))
    assert [results[0], results[2]] == [0, 0]
    assert isinstance(results[1], TaskFailed) and "it ran longer than its 1 s" in str(results[1])


def test_loaded_state_stays_for_the_next_item(client: Potluck) -> None:
    remote = loads.using(client=client)
    counts = list(remote.map(range(50)))
    assert len(set(counts)) > 1, "several items met the same interpreter"
    assert remote.submit(0).result(60) > 1, "and so did a call"


def test_large_values_go_both_ways(client: Potluck) -> None:
    remote = echo.using(client=client)
    large = os.urandom(2_000_000)
    digest, returned = remote.submit(large).result(60)
    assert returned == large and digest == hashlib.sha256(large).hexdigest()
    chunks = [os.urandom(200_000) for _ in range(5)]
    assert [data for _, data in remote.map(chunks)] == chunks


def test_folder_files_and_secrets_are_there(client: Potluck, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "file").write_text("given")
    remote = reads.using(
        client=client,
        folder=tmp_path / "folder",
        file={"given.txt": tmp_path / "file"},
        secret={"TOKEN": "kept to ourselves"},
    )
    assert remote.submit().result(60) == ["beside", "given", "kept to ourselves"]
