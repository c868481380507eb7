"""The device flow: a terminal asks, a wallet approves, the terminal is let in, once."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
import redis

from potluck.server.auth.device_flow.codes import ALPHABET
from potluck.server.origins import origins
from potluck.server.settings import ServerSettings
from potluck.wire import routes
from potluck.wire.identity import Delegation
from potluck.wire.routes import Route
from potluck.wire.signing.delegation import digest
from potluck.wire.signing.signature import sign
from tests.processes import Api, ServerProcess, await_true
from tests.redis_server import RedisServer
from tests.wallets import Wallet

ANN, BOB = Wallet("ann at the terminal"), Wallet("bob at the terminal")
NODE_KEY = Wallet("a node key").address
# Many calls from one address, and none of them about limits.
EAGER = {"POTLUCK_TERMINAL_POLL_SECONDS": "0.01", "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), 0, **EAGER) as running:
        yield running


@pytest.fixture
def terminal(server: ServerProcess) -> Iterator[Api]:
    """Somebody without a token; the page in the browser is one, too."""
    api = server.client("")
    yield api
    api.close()


def ask(api: Api, **fields: Any) -> Any:
    approval = api.post(routes.ASK_FOR_TERMINAL.path, {"machine": "attic", **fields})
    assert "device_code" in approval, approval
    return approval


def poll(api: Api, approval: Any) -> Any:
    return api.post(routes.TERMINAL_TOKEN.path, {"device_code": approval["device_code"]})


def at(route: Route, approval: Any) -> str:
    return route.url(user_code=approval["user_code"])


def draft(api: Api, approval: Any, wallet: Wallet = ANN, **changes: Any) -> Any:
    request = {"address": wallet.address, "chain_id": 1, "origin": api.url, **changes}
    return api.post(at(routes.DRAFT_TERMINAL, approval), request)


def signed(drafted: Any, wallet: Wallet = ANN) -> dict[str, Any]:
    message = drafted["message"]
    login_request = {"message": message, "signature": wallet.sign_text(message)}
    if drafted["delegation"] is None:
        return login_request
    delegation = msgspec.convert(drafted["delegation"], Delegation)
    return {
        **login_request,
        "delegation": {**drafted["delegation"], "signature": sign(wallet.key, digest(delegation))},
    }


def send(api: Api, approval: Any, request: dict[str, Any]) -> Any:
    """The problem; none if it was taken."""
    response = api.call("POST", at(routes.APPROVE_TERMINAL, approval), json.dumps(request).encode())
    return None if response.status == 204 else response.json()


def approve(api: Api, approval: Any, wallet: Wallet = ANN) -> Any:
    return send(api, approval, signed(draft(api, approval, wallet), wallet))


def test_a_terminal_is_let_in_once_a_wallet_has_approved_it(
    server: ServerProcess, terminal: Api
) -> None:
    approval = ask(terminal)
    assert poll(terminal, approval)["code"] == "authorization_pending"
    assert approve(terminal, approval) is None
    tokens = poll(terminal, approval)
    me = server.client(tokens["access_token"])
    assert me.get(routes.ME.path)["address"] == ANN.address == tokens["address"]
    assert "attic" in [
        session["machine"] for session in me.get(routes.LIST_SESSIONS.path)["sessions"]
    ]
    assert poll(terminal, approval)["code"] == "expired_token", "it was good once"


def test_the_code_is_for_people(terminal: Api) -> None:
    approval = ask(terminal)
    first, dash, second = approval["user_code"].partition("-")
    assert (len(first), dash, len(second)) == (4, "-", 4)
    assert set(first + second) <= set(ALPHABET) and not set(ALPHABET) & set("AEIOUY0O1I")
    for typed_code in (first + second, f"{first}{second}".lower(), f" {first.lower()} - {second}"):
        terminal_view = terminal.get(f"/v1/auth/device/{typed_code.replace(' ', '%20')}")
        assert terminal_view["user_code"] == approval["user_code"]


def test_the_page_is_shown_who_asks_and_for_what(terminal: Api) -> None:
    terminal_view = terminal.get(at(routes.SHOW_TERMINAL, ask(terminal, node_key=NODE_KEY.lower())))
    assert (terminal_view["machine"], terminal_view["node_key"]) == ("attic", NODE_KEY)
    assert "tasks:write" in terminal_view["scopes"] and "node" not in terminal_view["scopes"]
    assert (
        terminal_view["user_code"] in terminal_view["statement"]
        and NODE_KEY in terminal_view["statement"]
    )
    assert "device_code" not in json.dumps(terminal_view)


@pytest.mark.parametrize(
    "typed_code", ["BCDFGHJK", "AAAAAAAA", "%00", "x" * 300, "%F0%9F%8D%B2", "'--"]
)
def test_an_unknown_code_is_not_found(terminal: Api, typed_code: str) -> None:
    wallet = json.dumps({"address": ANN.address, "chain_id": 1, "origin": terminal.url}).encode()
    approval = json.dumps({"message": "m", "signature": "0x"}).encode()
    for route, body in (
        (routes.SHOW_TERMINAL, None),
        (routes.DRAFT_TERMINAL, wallet),
        (routes.APPROVE_TERMINAL, approval),
        (routes.DENY_TERMINAL, None),
    ):
        response = terminal.call(route.method, route.url(user_code=typed_code), body)
        assert (response.status, response.json()["code"]) == (404, "not_found"), route


def test_a_wrong_secret_is_refused(terminal: Api) -> None:
    """Not with another one, and not with a changed one: all get the same answer."""
    approval = ask(terminal)
    assert approve(terminal, approval) is None
    code = approval["device_code"]
    forged = [code[:-1], code + "0", approval["user_code"], "x", ask(terminal)["device_code"][:-9]]
    for place in range(0, len(code), 3):
        other = "f" if code[place] != "f" else "0"
        forged.append(code[:place] + other + code[place + 1 :])
    problems = {json.dumps(poll(terminal, {"device_code": device_code})) for device_code in forged}
    assert len(problems) == 1 and '"expired_token"' in problems.pop()
    assert "access_token" in poll(terminal, approval)


def test_a_terminal_that_polls_too_often_is_told_to_slow_down(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, POTLUCK_TERMINAL_POLL_SECONDS="1") as server:
        api = server.client("")
        approval = ask(api)
        assert approval["interval"] == 1
        assert poll(api, approval)["code"] == "authorization_pending"
        assert poll(api, approval)["code"] == "slow_down"
        assert poll(api, ask(api))["code"] == "authorization_pending", "that one has not polled"
        await_true(lambda: poll(api, approval)["code"] == "authorization_pending", "it waited")
        assert approve(api, approval) is None
        assert "access_token" in poll(api, approval), "what is approved is not held back"
        api.close()


def test_a_code_ends(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, POTLUCK_TERMINAL_SECONDS="0.5") as server:
        api = server.client("")
        late_approval, open_approval = ask(api), ask(api)
        assert approve(api, late_approval) is None
        await_true(lambda: poll(api, open_approval)["code"] == "expired_token", "the code ends")
        assert poll(api, late_approval)["code"] == "expired_token", "an approval ends with its code"
        assert draft(api, open_approval)["code"] == "not_found"
        api.close()


def test_a_refusal_ends_the_sign_in(terminal: Api) -> None:
    approval = ask(terminal)
    drafted = draft(terminal, approval)
    assert terminal.call("POST", at(routes.DENY_TERMINAL, approval)).status == 204
    assert poll(terminal, approval)["code"] == "access_denied"
    assert send(terminal, approval, signed(drafted))["code"] == "not_found"
    assert terminal.call("POST", at(routes.DENY_TERMINAL, approval)).status == 404


Change = Callable[[Api, Any], dict[str, Any]]


def _another_code(api: Api, approval: Any) -> dict[str, Any]:
    return signed(draft(api, ask(api)))


def _a_login(api: Api, approval: Any) -> dict[str, Any]:
    return ANN.answer(api.post(routes.CHALLENGE.path, {}))


def _another_wallet(api: Api, approval: Any) -> dict[str, Any]:
    return signed(draft(api, approval, BOB), ANN)


def _a_changed_word(api: Api, approval: Any) -> dict[str, Any]:
    request = signed(draft(api, approval))
    return {**request, "message": request["message"].replace("Sign in", "Sign at")}


def _a_used_nonce(api: Api, approval: Any) -> dict[str, Any]:
    challenge = api.post(routes.CHALLENGE.path, {})
    statement = api.get(at(routes.SHOW_TERMINAL, approval))["statement"]
    request = ANN.answer(challenge, statement=statement)
    assert "access_token" in api.post(routes.LOGIN.path, ANN.answer(challenge))
    return request


@pytest.mark.parametrize(
    "make_request", [_another_code, _a_login, _another_wallet, _a_changed_word, _a_used_nonce]
)
def test_only_a_signature_for_this_code_approves_it(terminal: Api, make_request: Change) -> None:
    approval = ask(terminal)
    assert send(terminal, approval, make_request(terminal, approval))["code"] == "not_signed_in"
    assert poll(terminal, approval)["code"] == "authorization_pending"
    assert approve(terminal, approval) is None, "it is still good for who it is for"


def test_an_approval_is_no_login(terminal: Api) -> None:
    approval = ask(terminal)
    request = signed(draft(terminal, approval))
    assert send(terminal, approval, request) is None
    assert terminal.post(routes.LOGIN.path, request)["code"] == "not_signed_in"
    assert send(terminal, approval, request)["code"] == "not_found"


def test_a_hundred_polls_at_once_open_one_session(server: ServerProcess, terminal: Api) -> None:
    approval = ask(terminal, machine="crowded")
    assert approve(terminal, approval) is None
    with ThreadPoolExecutor(25) as threads:
        responses = list(threads.map(lambda _: poll(server.client(""), approval), range(100)))
    tokens = [response for response in responses if "access_token" in response]
    assert len(tokens) == 1
    assert {response["code"] for response in responses if response not in tokens} == {
        "expired_token"
    }
    me = server.client(tokens[0]["access_token"])
    machines = [session["machine"] for session in me.get(routes.LIST_SESSIONS.path)["sessions"]]
    assert machines.count("crowded") == 1


def test_of_concurrent_approvals_of_one_code_one_succeeds(
    server: ServerProcess, terminal: Api
) -> None:
    approval = ask(terminal)
    wallets = [Wallet(f"quick {number}") for number in range(20)]
    requests = [signed(draft(terminal, approval, wallet), wallet) for wallet in wallets]
    with ThreadPoolExecutor(20) as threads:
        responses = list(
            threads.map(lambda request: send(server.client(""), approval, request), requests)
        )
    assert responses.count(None) == 1
    assert {response["code"] for response in responses if response} <= {"conflict", "not_found"}
    assert poll(terminal, approval)["address"] == wallets[responses.index(None)].address


def test_a_wallet_on_a_chain_that_is_not_known_signs_for_the_first_of_ours(terminal: Api) -> None:
    approval = ask(terminal)
    drafted = draft(terminal, approval, chain_id=137)
    assert drafted["chain_id"] == 1
    assert send(terminal, approval, signed(drafted)) is None


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null", ""])
def test_drafts_for_a_page_of_another_origin_are_refused(terminal: Api, origin: str) -> None:
    drafted = draft(terminal, ask(terminal), origin=origin)
    assert drafted["code"] == "invalid_input" and terminal.url in drafted["hint"]


def test_on_the_usual_port_the_page_has_no_port_in_its_name(tmp_path: Path) -> None:
    settings = ServerSettings(data_directory=tmp_path)
    assert {"https://127.0.0.1", "https://127.0.0.1:443"} <= set(origins(settings, "https", 443))
    assert "http://127.0.0.1" not in origins(settings, "http", 443)


def test_an_invite_comes_in_with_the_terminal(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, POTLUCK_REGISTRATION="invite") as server:
        api, stranger = server.client(""), Wallet("a stranger")
        uninvited = ask(api)
        assert approve(api, uninvited, stranger)["code"] == "registration_closed"
        assert poll(api, uninvited)["code"] == "authorization_pending"
        invite = server.client().post(routes.MAKE_INVITE.path, {"roles": ["provider"]})["code"]
        invited = ask(api, invite=invite)
        assert approve(api, invited, stranger) is None
        me = server.client(poll(api, invited)["access_token"]).get(routes.ME.path)
        assert (me["address"], me["roles"]) == (stranger.address, ["provider"])
        api.close()


def test_a_suspended_account_approves_nothing_and_fetches_nothing(
    server: ServerProcess, terminal: Api
) -> None:
    carl = Wallet("carl, soon suspended")
    approved, waiting = ask(terminal), ask(terminal)
    assert approve(terminal, approved, carl) is None
    account_id = carl.sign_in(server.url)["account_id"]
    path = routes.SUSPEND_ACCOUNT.url(account_id=account_id)
    assert server.client().call("POST", path, b"{}").status < 300
    assert approve(terminal, waiting, carl)["code"] == "account_suspended"
    assert poll(terminal, approved)["code"] == "account_suspended"


def test_a_node_key_is_authorised_in_the_same_go(server: ServerProcess, terminal: Api) -> None:
    dora = Wallet("dora with a machine")
    approval = ask(terminal, node_key=NODE_KEY)
    assert approve(terminal, approval, dora) is None
    dora_signed_in = server.client(poll(terminal, approval)["access_token"])
    (key,) = dora_signed_in.get(routes.LIST_NODE_KEYS.path)["node_keys"]
    assert (key["key"], key["machine"]) == (NODE_KEY, "attic")
    assert "provider" in dora_signed_in.get(routes.ME.path)["roles"]


def _no_delegation(request: dict[str, Any], api: Api) -> dict[str, Any]:
    return {**request, "delegation": None}


def _for_another_key(request: dict[str, Any], api: Api) -> dict[str, Any]:
    other = ask(api, node_key=Wallet("another node key").address)
    return {**request, "delegation": signed(draft(api, other))["delegation"]}


def _by_another_wallet(request: dict[str, Any], api: Api) -> dict[str, Any]:
    other = ask(api, node_key=request["delegation"]["key"])
    return {**request, "delegation": signed(draft(api, other, BOB), BOB)["delegation"]}


def _with_a_wrong_signature(request: dict[str, Any], api: Api) -> dict[str, Any]:
    return {**request, "delegation": {**request["delegation"], "signature": request["signature"]}}


def _for_longer(request: dict[str, Any], api: Api) -> dict[str, Any]:
    later = request["delegation"]["issued_at"] + 90 * 86_400 + 1
    delegation = {**request["delegation"], "expires_at": later}
    return {
        **request,
        "delegation": {
            **delegation,
            "signature": sign(ANN.key, digest(msgspec.convert(delegation, Delegation))),
        },
    }


@pytest.mark.parametrize(
    "change",
    [_no_delegation, _for_another_key, _by_another_wallet, _with_a_wrong_signature, _for_longer],
)
def test_an_invalid_delegation_approves_nothing(
    terminal: Api, change: Callable[[dict[str, Any], Api], dict[str, Any]]
) -> None:
    approval = ask(terminal, node_key=Wallet("a node key that waits").address)
    request = signed(draft(terminal, approval))
    assert send(terminal, approval, change(request, terminal))["code"] == "invalid_input"
    assert poll(terminal, approval)["code"] == "authorization_pending"


def test_an_unrequested_delegation_is_refused(terminal: Api) -> None:
    approval, other = ask(terminal), ask(terminal, node_key=NODE_KEY)
    request = {
        **signed(draft(terminal, approval)),
        "delegation": signed(draft(terminal, other))["delegation"],
    }
    assert send(terminal, approval, request)["code"] == "invalid_input"


async def test_polling_without_a_signature_leaves_no_row(tmp_path: Path, database_url: str) -> None:
    counted = ["terminal_approvals", "accounts", "sessions", "used_nonces", "audit"]
    with ServerProcess(tmp_path, 0, POTLUCK_DATABASE_URL=database_url, **EAGER) as server:
        api = server.client("")
        connection = await asyncpg.connect(database_url)
        rows = [await _rows(connection, table) for table in counted]
        for _ in range(20):
            approval = ask(api)
            draft(api, approval)
            poll(api, approval)
            send(api, approval, {"message": "junk", "signature": "0x"})
        assert [await _rows(connection, table) for table in counted] == rows
        assert approve(api, approval) is None
        assert await _rows(connection, "terminal_approvals") == 1
        stored_text = await connection.fetchval(
            "SELECT terminal_approvals::text FROM terminal_approvals"
        )
        assert (
            approval["device_code"] not in stored_text and approval["user_code"] not in stored_text
        )
        await connection.close()
        api.close()


async def _rows(connection: Any, table: str) -> int:
    row_count: int = await connection.fetchval(f"SELECT count(*) FROM {table}")
    return row_count


def test_while_redis_is_away_nothing_is_taken_for_over(
    tmp_path: Path, own_redis: RedisServer
) -> None:
    with ServerProcess(tmp_path, 0, POTLUCK_REDIS_URL=own_redis.url, **EAGER) as server:
        api = server.client("")
        approval = ask(api)
        own_redis.kill()
        assert poll(api, approval)["code"] == "unavailable"
        assert api.get(at(routes.SHOW_TERMINAL, approval))["code"] == "unavailable"
        assert api.post(routes.ASK_FOR_TERMINAL.path, {})["code"] == "unavailable"
        own_redis.start()  # empty
        await_true(lambda: poll(api, approval)["code"] == "expired_token", "it is known to be lost")
        assert approve(api, ask(api)) is None
        api.close()


def test_instances_share_what_waits_and_redis_learns_nothing(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    shared = {"POTLUCK_DATABASE_URL": database_url, "POTLUCK_REDIS_URL": redis_url, **EAGER}
    with (
        ServerProcess(tmp_path / "one", 0, **shared) as one_server,
        ServerProcess(tmp_path / "two", 0, **shared) as two,
        redis.Redis.from_url(redis_url) as store,
    ):
        first_client, second_client = one_server.client(""), two.client("")
        approval, other = (
            ask(first_client),
            ask(first_client, machine="secret-name", invite="secret-invite"),
        )
        names = list(store.scan_iter("*device-ask*"))
        stored_bytes = b"".join(name + (store.get(name) or b"") for name in names)
        assert len(names) == 2
        for secret in ("secret-name", "secret-invite", other["user_code"], other["device_code"]):
            assert secret.encode() not in stored_bytes

        # What is put there from outside, even from another code, is not believed.
        values = [store.get(name) for name in names]
        for name, value in zip(names, reversed(values), strict=True):
            store.set(name, value or b"")
        assert second_client.call("GET", at(routes.SHOW_TERMINAL, other)).status == 404
        for name, value in zip(names, values, strict=True):
            store.set(name, value or b"")

        assert poll(first_client, approval)["code"] == "authorization_pending"
        assert approve(second_client, approval) is None
        assert poll(first_client, approval)["address"] == ANN.address
