"""Three proxies in front of two servers, as `deploy/` configures them."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3

from potluck.consumer import Patience, Potluck
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.events import EventView
from tests.databases import Databases
from tests.deploy.draining_server import draining_server
from tests.deploy.instances import Instances, instances
from tests.deploy.load import Load
from tests.deploy.proxies import PROXIES, has_noticed, new_place, running_proxy
from tests.processes import await_true, free_port
from tests.redis_server import RedisServer

ONE_TRY = Patience(tries=1)


@pytest.fixture(scope="module")
def pool(
    databases: Databases, shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instances]:
    shared_redis.flush()
    with (
        databases.fresh() as url,
        instances(tmp_path_factory.mktemp("pool"), url, shared_redis.url) as started,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("POTLUCK_CA_FILE", str(started.ca_file))
        yield started
        assert "duty failed" not in started.logs()


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, pool: Instances) -> Iterator[str]:
    with running_proxy(request.param, pool.place):
        yield request.param


@pytest.fixture(scope="module")
def token(proxy: str, pool: Instances) -> str:
    """By a signature for the address of the proxy."""
    return pool.sign_in()


@pytest.fixture
def client(pool: Instances, token: str) -> Iterator[Potluck]:
    with Potluck(pool.place.url, token) as client:
        yield client


def test_proxies_pass_streams_polls_uploads_and_logs(pool: Instances, client: Potluck) -> None:
    """The provider waits in a long poll of 30 s, so only a wake-up lets the task begin soon."""
    data = os.urandom(3 * 2**20)
    blob = client.files.upload_bytes(data)
    assert client.files.download_bytes(blob, len(data)) == data
    pool.need_provider()
    task = client.tasks.submit(TaskRequest(ScriptSpec("s.py", "print('through the proxy')")))
    assert client.tasks.wait(task.id).state.value == "succeeded"
    pieces = client.tasks.logs(task.id).pieces
    assert b"through the proxy" in b"".join(piece.data for piece in pieces)


@pytest.mark.parametrize("end", [Instances.kill, Instances.stop])
def test_an_instance_that_ends_is_not_noticed(
    end: Callable[[Instances, int], None], pool: Instances, client: Potluck, token: str
) -> None:
    """And a stream goes on where it was. nginx is not told that one stops: it finds its port
    closed."""
    stream = iter(client.events.follow())
    with Load([pool.place.url], token) as load:
        load.await_more(10)
        end(pool, 0)
        load.await_more(30)
        assert isinstance(next(stream), EventView)
        pool.start(0)
        pool.await_both()
    assert load.failures == []
    assert load.lost(pool.database_url) == 0


def test_an_instance_that_is_not_ready_gets_no_requests(
    pool: Instances, proxy: str, client: Potluck, token: str
) -> None:
    """nginx tries it with one request in a second, and lets another one answer that."""
    pool.line.cut()
    try:
        await_true(lambda: not pool.is_ready(1), "it says that it is not ready")
        await_true(lambda: _noticed(pool, proxy), "the proxy leaves it alone")
        assert {pool.answering() for _ in range(20)} == {pool.instance(0)}
        with Potluck(pool.place.url, token, ONE_TRY) as impatient_client:
            for _ in range(20):
                impatient_client.account.me()
    finally:
        pool.line.mend()
    pool.await_both()


@pytest.mark.parametrize("name", ["haproxy", "caddy"])
def test_an_instance_that_drains_finishes_its_requests(name: str, tmp_path: Path) -> None:
    """Such as uploads and long polls, while the proxy already knows that it stops."""
    with draining_server() as server, ThreadPoolExecutor(1) as thread:
        place = new_place(tmp_path, (f"127.0.0.1:{free_port()}", server.address))
        authority = place.issued.authority_pem.decode()
        client = urllib3.PoolManager(ca_cert_data=authority, retries=False)
        with running_proxy(name, place):
            await_true(lambda: client.request("GET", place.url).status == 200, "it answers")
            request = thread.submit(client.request, "POST", f"{place.url}/slow")
            server.is_busy.wait(30)
            server.is_stopping.set()
            await_true(lambda: has_noticed(name, place), "the proxy leaves it alone")
            server.may_answer.set()
            assert request.result(30).status == 200


def _noticed(pool: Instances, proxy: str) -> bool:
    """nginx notices only by a request."""
    pool.answering()
    return has_noticed(proxy, pool.place)
