"""Instances on machines whose clocks disagree: one time for all of them, the database's."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from potluck.model.ids import first_id_at
from potluck.wire import routes
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT
from tests.databases import Databases
from tests.processes import ServerProcess, await_true
from tests.redis_server import RedisServer
from tests.skewed_clock import skewed
from tests.wallets import Wallet

ANN = Wallet("ann between two clocks")

Pair = tuple[ServerProcess, ServerProcess]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((300, 0), id="ahead"),
        pytest.param((-60, 0), id="behind", marks=pytest.mark.long),
        pytest.param((150, -150), id="apart", marks=pytest.mark.long),
        pytest.param((60, 0), id="a minute", marks=pytest.mark.long),
    ],
)
def pair(
    request: pytest.FixtureRequest,
    databases: Databases,
    shared_redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    """Two instances on one database and one Redis."""
    directory = tmp_path_factory.mktemp("clocks")
    with ExitStack() as stack:
        shared = {
            "POTLUCK_DATABASE_URL": stack.enter_context(databases.fresh()),
            "POTLUCK_REDIS_URL": shared_redis.url,
            "POTLUCK_HEALTH_SECONDS": "0.1",
            "POTLUCK_TERMINAL_POLL_SECONDS": "0.01",
        }
        first, second = (
            stack.enter_context(
                ServerProcess(
                    directory / name, 0, **shared, **skewed(directory / f"{name}-clock", seconds)
                )
            )
            for name, seconds in zip(("one", "two"), request.param, strict=True)
        )
        yield first, second


@pytest.fixture(params=["there", "back"])
def ways(request: pytest.FixtureRequest, pair: Pair) -> Pair:
    """Both directions."""
    return pair if request.param == "there" else (pair[1], pair[0])


def test_the_clocks_do_differ(pair: Pair) -> None:
    """Otherwise nothing here is tested."""
    skews = [server.client("").get("/readyz")["clock_skew_seconds"] for server in pair]
    assert abs(skews[0] - skews[1]) >= 59


def test_a_session_of_one_instance_is_valid_at_the_other(ways: Pair) -> None:
    first, second = ways
    tokens = ANN.sign_in(first.url)
    me = second.client(tokens["access_token"]).call("GET", "/v1/me")
    assert (me.status, me.json()["address"]) == (200, ANN.address)
    following = second.client("").post(
        routes.REFRESH.path, {"refresh_token": tokens["refresh_token"]}
    )
    assert first.client(following["access_token"]).call("GET", "/v1/me").status == 200


def test_a_challenge_of_one_instance_is_accepted_at_the_other(ways: Pair) -> None:
    first, second = ways
    challenge = {**first.client("").post(routes.CHALLENGE.path, {}), "origins": [second.url]}
    login = second.client("").post(routes.LOGIN.path, ANN.answer(challenge))
    assert "access_token" in login, login


def test_a_node_key_is_authorised_at_one_instance_and_registers_at_the_other(ways: Pair) -> None:
    first, second = ways
    key = Wallet(f"a node key between two clocks, {first.port}")
    challenge = {**second.client("").post(routes.CHALLENGE.path, {}), "origins": [first.url]}
    word = {"delegation": ServerProcess.wallet.delegation(challenge, key)}
    authorised = first.client().post(routes.AUTHORISE_NODE_KEY.path, word)
    assert "id" in authorised, authorised
    challenge = {**first.client("").post(routes.CHALLENGE.path, {}), "origins": [second.url]}
    login = second.client("").post(
        routes.NODE_LOGIN.path, key.answer(challenge, statement=NODE_STATEMENT)
    )
    assert "access_token" in login, login
    node = first.client(login["access_token"])
    statement = key.state(first.url, f"device-{first.port}")
    registration = node.post(
        "/v1/nodes", {**_offer(f"device-{first.port}"), "statements": [statement]}
    )
    assert "node_id" in registration, registration


def test_a_terminal_can_be_approved_at_another_instance(ways: Pair) -> None:
    first, second = ways
    approval = first.client("").post(routes.ASK_FOR_TERMINAL.path, {"machine": "attic"})
    path_values = {"user_code": approval["user_code"]}
    wallet = {"address": ANN.address, "chain_id": 1, "origin": second.url}
    draft = second.client("").post(routes.DRAFT_TERMINAL.url(**path_values), wallet)
    signed = {"message": draft["message"], "signature": ANN.sign_text(draft["message"])}
    approved = second.client("").call(
        "POST", routes.APPROVE_TERMINAL.url(**path_values), json.dumps(signed).encode()
    )
    assert approved.status == 204, approved.data
    tokens = first.client("").post(
        routes.TERMINAL_TOKEN.path, {"device_code": approval["device_code"]}
    )
    assert second.client(tokens["access_token"]).call("GET", "/v1/me").status == 200


def test_ids_and_dates_are_by_the_databases_clock(ways: Pair) -> None:
    """The database's is this machine's, which is right here."""
    first, _ = ways
    start = time.time()
    task_id = first.client().submit("print(1)")
    response = first.client("").call("GET", "/healthz")
    end = time.time()
    assert (
        first_id_at("task", _moment(start - 1)) <= task_id <= first_id_at("task", _moment(end + 1))
    )
    date = parsedate_to_datetime(response.headers["Date"]).timestamp()
    assert start - 3 <= date <= end + 3


def test_a_wrong_clock_is_shown_and_logged_and_nothing_else_is_wrong(pair: Pair) -> None:
    wrong = pair[0]
    readiness = await_true(
        lambda: _when(wrong.client("").get("/readyz"), "degraded"), "it is told by the instance"
    )
    assert {part for part, state in readiness["parts"].items() if state != "ok"} == {"clock"}
    assert readiness["parts"]["clock"] == "differs from the database's"
    await_true(
        lambda: '"part":"clock"' in (wrong.directory / "server.log").read_text(), "it is logged"
    )


def _when(readiness: Any, status: str) -> Any:
    return readiness if readiness["status"] == status else None


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _offer(uuid: str) -> dict[str, Any]:
    device = {"kind": "cpu", "uuid": uuid, "vendor": "v", "model": "m", "memory_bytes": 1}
    description = {
        "name": "attic",
        "platform": "linux",
        "python_version": "3.11",
        "potluck_version": "0",
        "cores": 1,
        "memory_bytes": 1,
        "disk_bytes": 1,
        "sandbox": {"driver": "bwrap"},
        "devices": [device],
    }
    return {"description": description}
