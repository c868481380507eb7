"""How often somebody may call, alone and over several instances."""

import asyncio
from collections.abc import Awaitable, Iterator
from pathlib import Path

import asyncpg
import pytest

from potluck.live.in_process import InProcessLive
from potluck.model.error import RateLimited
from potluck.server.http.peers import holders
from potluck.server.http.settings import HttpSettings
from potluck.server.rate_limiter import Limiter
from potluck.server.settings import read_settings
from potluck.wire import routes
from tests.databases import Databases
from tests.processes import Api, ServerProcess
from tests.redis_server import RedisServer
from tests.server.http.raw_socket import Raw
from tests.server.http.test_peers import behind, status
from tests.wallets import Wallet

FEW = {
    "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0.01",
    "POTLUCK_ADDRESS_BURST": "8",
    "POTLUCK_ACCOUNT_REQUESTS_PER_SECOND": "0.01",
    "POTLUCK_ACCOUNT_BURST": "5",
}
# As where strangers can come.
USUAL = {"POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "20"}
GUESS = "potluck_key_" + "A" * 43


@pytest.fixture
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("strict"), 0, **FEW) as server:
        yield server


def statuses(api: Api, path: str, times: int) -> list[int]:
    return [api.call("GET", path).status for _ in range(times)]


def test_a_stranger_is_counted_by_address(strict: ServerProcess) -> None:
    assert statuses(strict.client(""), "/healthz", 10) == [200] * 8 + [429] * 2
    response = strict.client("").call("GET", "/healthz")
    assert 80 < int(response.headers["Retry-After"]) <= 100
    assert response.json()["code"] == "rate_limited" and response.json()["retryable"]


def test_guessing_tokens_counts_as_a_stranger_does(strict: ServerProcess) -> None:
    guesses = [strict.client(token) for token in ("", "junk", "a.b.c", GUESS)]
    status_codes = [status for api in guesses for status in statuses(api, "/v1/me", 2)]
    assert status_codes == [401] * 8
    assert [status for api in guesses for status in statuses(api, "/v1/me", 1)] == [429] * 4


def test_an_ended_session_s_token_counts_so_too(strict: ServerProcess) -> None:
    ended_session = strict.client(strict.sign_in(Wallet("one")))
    assert ended_session.call("POST", routes.LOGOUT.path).status == 204
    assert statuses(ended_session, "/v1/me", 8) == [401] * 6 + [429] * 2


async def test_junk_does_not_reach_the_database(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every connection waits for a table that somebody locked; junk is answered all the same."""
    few_requests = {
        **FEW,
        "POTLUCK_DATABASE_URL": database_url,
        "POTLUCK_DATABASE_CONNECTIONS": "2",
    }
    with ServerProcess(tmp_path_factory.mktemp("busy"), 0, **few_requests) as server:
        database = await asyncpg.connect(database_url)
        async with database.transaction():
            await database.execute("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
            guesses = [
                asyncio.create_task(asyncio.to_thread(statuses, server.client(GUESS), "/v1/me", 1))
                for _ in range(3)
            ]
            while await database.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < 2:
                await asyncio.sleep(0.02)
            junk = await asyncio.to_thread(statuses, server.client("a.b.c"), "/v1/me", 8)
            assert junk == [401] * 8
            later = await asyncio.to_thread(statuses, server.client(GUESS), "/v1/me", 2)
            assert later == [429] * 2, "nothing is left to guess with"
        await asyncio.gather(*guesses)
        await database.close()


def test_accounts_are_counted_one_by_one_and_apart_from_strangers(strict: ServerProcess) -> None:
    first_account, other = (
        strict.client(strict.sign_in(Wallet(name))) for name in ("one", "other")
    )
    assert statuses(first_account, "/v1/me", 7) == [200] * 5 + [429] * 2
    assert statuses(other, "/v1/me", 1) == [200]
    assert statuses(strict.client(""), "/healthz", 1) == [200]
    assert statuses(strict.client("junk"), "/v1/me", 8)[-1] == 429
    assert statuses(other, "/v1/me", 3) == [200] * 3, "not refused for what a neighbour did"


def test_two_sessions_of_an_account_are_one_account(strict: ServerProcess) -> None:
    wallet = Wallet("one")
    sessions = [strict.client(strict.sign_in(wallet)) for _ in range(2)]
    status_codes = [status for api in sessions for status in statuses(api, "/v1/me", 4)]
    assert status_codes == [200] * 5 + [429] * 3


def test_wallets_of_one_address_are_a_crowd(tmp_path_factory: pytest.TempPathFactory) -> None:
    crowd_limits = {"POTLUCK_CROWD_REQUESTS_PER_SECOND": "0.01", "POTLUCK_CROWD_BURST": "6"}
    with ServerProcess(tmp_path_factory.mktemp("crowd"), 0, **crowd_limits) as server:
        clients = [server.client(server.sign_in(Wallet(f"number {n}"))) for n in range(4)]
        status_codes = [status for api in clients for status in statuses(api, "/v1/me", 2)]
        assert status_codes == [200] * 6 + [429] * 2
        assert statuses(server.client(""), "/healthz", 1) == [200]


async def test_machines_are_counted_one_by_one_and_together() -> None:
    few_requests = HttpSettings(
        account_requests_per_second=0.01,
        account_burst=3,
        crowd_requests_per_second=0.01,
        crowd_burst=5,
    )
    limiter = Limiter(InProcessLive(), few_requests)

    async def calls(node_key_id: str, times: int) -> list[bool]:
        return [await is_let(limiter.check_machine(node_key_id, "account")) for _ in range(times)]

    assert await calls("one", 4) == [True] * 3 + [False]
    assert await calls("other", 3) == [True] * 2 + [False]


async def test_terminals_are_counted_together() -> None:
    limiter = Limiter(InProcessLive(), HttpSettings(terminal_asks_per_second=0.5))
    assert [await is_let(limiter.check_terminals()) for _ in range(6)] == [True] * 5 + [False]
    unlimited = Limiter(InProcessLive(), HttpSettings(terminal_asks_per_second=0))
    assert await is_let(unlimited.check_terminals())


def test_terminals_that_ask_are_counted_wherever_they_come_from(tmp_path: Path) -> None:
    """What they ask for is kept until it is answered, and addresses are cheap."""
    few_asks = {"POTLUCK_TERMINAL_ASKS_PER_SECOND": "0.2"}
    with behind("127.0.0.1", tmp_path, **few_asks) as server:
        status_codes = [asked_from(server, f"203.0.113.{number}") for number in range(4)]
        assert status_codes == [201] * 2 + [429] * 2
        assert status(server, "203.0.113.9") == 200


def asked_from(server: ServerProcess, address: str) -> int:
    body = b'{"machine": "attic"}'
    head_lines = (
        f"POST {routes.ASK_FOR_TERMINAL.path} HTTP/1.1",
        "Host: pool",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Forwarded-For: {address}",
    )
    with Raw(server, handshake=False) as proxy:
        proxy.send("\r\n".join((*head_lines, "\r\n")).encode() + body)
        return proxy.answer().status


async def test_many_networks_of_one_holder_are_counted_together() -> None:
    few_requests = HttpSettings(address_requests_per_second=0.01, address_burst=2)
    limiter = Limiter(InProcessLive(), few_requests)

    async def calls(address: str) -> bool:
        return await is_let(limiter.check_address(address))

    assert [await calls("2001:db8:1:2::1") for _ in range(3)] == [True, True, False]
    others = [await calls(f"2001:db8:1:{n:x}::1") for n in range(16, 60)]
    assert others == [True] * 30 + [False] * 14, "16 times 2, and 2 of them were taken before"
    assert await calls("2001:db8:2::1")


async def is_let(check: Awaitable[None]) -> bool:
    try:
        await check
    except RateLimited:
        return False
    return True


def test_instances_count_together(
    databases: Databases, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with databases.fresh() as url:
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": redis_url, **FEW}
        with (
            ServerProcess(tmp_path_factory.mktemp("one"), 0, **shared) as first_server,
            ServerProcess(tmp_path_factory.mktemp("other"), 0, **shared) as other,
        ):
            status_codes = [
                api.call("GET", "/healthz").status
                for _ in range(6)
                for api in (first_server.client(""), other.client(""))
            ]
    assert status_codes == [200] * 8 + [429] * 4


def test_without_redis_each_counts_for_itself(
    databases: Databases, own_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with databases.fresh() as url:
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": own_redis.url, **FEW}
        with ServerProcess(tmp_path_factory.mktemp("alone"), 0, **shared) as server:
            own_redis.kill()
            assert statuses(server.client(""), "/healthz", 7) == [200] * 7
            assert statuses(server.client(""), "/readyz", 1) == [200], "degraded, and it works"
            assert statuses(server.client(""), "/healthz", 2) == [429] * 2


def test_normal_work_is_not_hindered(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the settings that people get: a burst of a person's, and a script's hundreds."""
    with ServerProcess(tmp_path_factory.mktemp("usual"), 0, **USUAL) as server:
        assert set(statuses(server.client(""), "/healthz", 150)) == {200}
        assert set(statuses(server.client(), "/v1/me", 500)) == {200}


def test_requests_from_the_same_machine_are_not_limited_by_address(tmp_path: Path) -> None:
    """All have one address there, so a script's mistake would keep its owner out."""
    with ServerProcess(tmp_path) as server:
        assert set(statuses(server.client("junk"), "/v1/me", 400)) == {401}


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ({}, 0),
        ({"host": "::1"}, 0),
        ({"address_requests_per_second": 7}, 7),
        ({"host": "0.0.0.0", "tls": "auto"}, 20),
        ({"public_url": "https://pool.example"}, 20),
        ({"behind_proxy": ["127.0.0.1"], "public_url": "https://pool.example"}, 20),
    ],
)
def test_strangers_are_counted_where_they_can_come(
    options: dict[str, object], rate: float, tmp_path: Path
) -> None:
    limits = read_settings({"data_directory": str(tmp_path), **options}, {})
    assert limits.address_requests_per_second == rate


def test_no_limit_is_no_limit(edge: ServerProcess) -> None:
    assert set(statuses(edge.client(""), "/healthz", 500)) == {200}


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("203.0.113.9", ["203.0.113.9"]),
        ("::ffff:203.0.113.9", ["203.0.113.9"]),
        ("2001:db8:1:2:3:4:5:6", ["2001:db8:1:2::/64", "2001:db8:1::/48"]),
        ("2001:db8:1:2::", ["2001:db8:1:2::/64", "2001:db8:1::/48"]),
        ("", [""]),
    ],
)
def test_a_network_of_ipv6_is_one_holder(address: str, counted_as: list[str]) -> None:
    assert [holder for holder, _ in holders(address)] == counted_as
