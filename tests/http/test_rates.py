"""How often somebody may call, alone and over several instances."""

from collections.abc import Iterator

import pytest

from potluck.server.limiter import holder
from tests.databases import Databases
from tests.processes import Api, ServerProcess
from tests.redis_server import RedisServer
from tests.wallets import Wallet

FEW = {
    "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0.01",
    "POTLUCK_ADDRESS_BURST": "8",
    "POTLUCK_ACCOUNT_REQUESTS_PER_SECOND": "0.01",
    "POTLUCK_ACCOUNT_BURST": "5",
}


@pytest.fixture
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("strict"), 0, **FEW) as server:
        yield server


def statuses(api: Api, path: str, times: int) -> list[int]:
    return [api.call("GET", path).status for _ in range(times)]


def test_a_stranger_is_counted_by_address(strict: ServerProcess) -> None:
    assert statuses(strict.client(""), "/healthz", 10) == [200] * 8 + [429] * 2
    answer = strict.client("").call("GET", "/healthz")
    assert 80 < int(answer.headers["Retry-After"]) <= 100
    assert answer.json()["code"] == "rate_limited" and answer.json()["retryable"]


def test_guessing_tokens_counts_as_a_stranger_does(strict: ServerProcess) -> None:
    guesses = strict.client("potluck_key_" + "A" * 43)
    assert statuses(guesses, "/v1/me", 10) == [401] * 8 + [429] * 2


def test_accounts_are_counted_one_by_one_and_apart_from_strangers(strict: ServerProcess) -> None:
    one, other = (strict.client(strict.sign_in(Wallet(name))) for name in ("one", "other"))
    assert statuses(one, "/v1/me", 7) == [200] * 5 + [429] * 2
    assert statuses(other, "/v1/me", 1) == [200]
    assert statuses(strict.client(""), "/healthz", 1) == [200]


def test_two_sessions_of_an_account_are_one_account(strict: ServerProcess) -> None:
    wallet = Wallet("one")
    sessions = [strict.client(strict.sign_in(wallet)) for _ in range(2)]
    found = [status for api in sessions for status in statuses(api, "/v1/me", 4)]
    assert found == [200] * 5 + [429] * 3


def test_instances_count_together(
    databases: Databases, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with databases.fresh() as url:
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": redis_url, **FEW}
        with (
            ServerProcess(tmp_path_factory.mktemp("one"), 0, **shared) as one,
            ServerProcess(tmp_path_factory.mktemp("other"), 0, **shared) as other,
        ):
            found = [
                api.call("GET", "/healthz").status
                for _ in range(6)
                for api in (one.client(""), other.client(""))
            ]
    assert found == [200] * 8 + [429] * 4


def test_without_redis_each_counts_for_itself(
    databases: Databases, own_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with databases.fresh() as url:
        shared = {"POTLUCK_DATABASE_URL": url, "POTLUCK_REDIS_URL": own_redis.url, **FEW}
        with ServerProcess(tmp_path_factory.mktemp("alone"), 0, **shared) as server:
            own_redis.kill()
            assert statuses(server.client(""), "/healthz", 10) == [200] * 8 + [429] * 2


def test_normal_work_is_not_hindered(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With the settings that people get: a burst of a person's, and a script's hundreds."""
    with ServerProcess(tmp_path_factory.mktemp("usual")) as server:
        assert set(statuses(server.client(""), "/healthz", 150)) == {200}
        assert set(statuses(server.client(), "/v1/me", 500)) == {200}


def test_no_limit_is_no_limit(edge: ServerProcess) -> None:
    assert set(statuses(edge.client(""), "/healthz", 500)) == {200}


@pytest.mark.parametrize(
    ("address", "counted_as"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("", ""),
    ],
)
def test_a_network_of_ipv6_is_one_holder(address: str, counted_as: str) -> None:
    assert holder(address) == counted_as
