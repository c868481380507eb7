"""Signing in with a wallet: what lets somebody in, and everything that does not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from coincurve.utils import GROUP_ORDER_INT

from potluck.wire.signing.sign_in_answer import NODE_STATEMENT, TERMINAL_STATEMENT
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

ANN = Wallet("ann")


@pytest.fixture
def anybody(server: ServerProcess) -> Api:
    return server.client("")


def challenge(api: Api) -> dict[str, Any]:
    challenge_response: dict[str, Any] = api.post("/v1/auth/challenge", {})
    return challenge_response


def at(**offset: float) -> str:
    moment = datetime.now(UTC) + timedelta(**offset)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def test_a_first_login_makes_the_account_of_a_wallet(server: ServerProcess, anybody: Api) -> None:
    wallet = Wallet("a first login")
    tokens = anybody.post("/v1/auth/login", wallet.answer(challenge(anybody)))
    me = server.client(tokens["access_token"]).get("/v1/me")
    assert (me["address"], me["roles"]) == (wallet.address, ["consumer"])
    assert me["signed_in_by"] == "session" and "admin" not in me["scopes"]
    second_session = wallet.sign_in(server.url)
    assert second_session["account_id"] == me["id"] == tokens["account_id"]


def test_every_name_of_this_machine_is_this_server(server: ServerProcess, anybody: Api) -> None:
    login_challenge = challenge(anybody)
    assert login_challenge["origins"][0] == server.url
    other = f"http://localhost:{server.port}"
    assert other in login_challenge["origins"]
    login_request = ANN.answer(
        login_challenge, domain=other.partition("://")[2], uri=f"{other}/device"
    )
    assert "access_token" in anybody.post("/v1/auth/login", login_request)


REFUSED: dict[str, Callable[[ServerProcess], dict[str, Any]]] = {
    "another domain": lambda _: {"domain": "evil.example"},
    "another port": lambda _: {"domain": "127.0.0.1:1"},
    "a look-alike with a user": lambda server: {"domain": f"127.0.0.1@evil.example:{server.port}"},
    "another uri": lambda _: {"uri": "https://evil.example/"},
    "a uri that only begins alike": lambda server: {"uri": f"{server.url}0"},
    "a uri with a user": lambda server: {"uri": f"http://127.0.0.1:{server.port}@evil.example"},
    "another scheme": lambda _: {"scheme": "https"},
    "another chain": lambda _: {"chain_id": 137},
    "another nonce": lambda _: {"nonce": "0" * 72},
    "a short nonce": lambda _: {"nonce": "abcdefgh"},
    "issued long ago": lambda _: {"issued_at": at(minutes=-6)},
    "issued in the future": lambda _: {"issued_at": at(minutes=6)},
    "expired": lambda _: {"expiration_time": at(seconds=-1)},
    "not valid yet": lambda _: {"not_before": at(minutes=1)},
    "a node key's words": lambda _: {"statement": NODE_STATEMENT},
    "words for a terminal": lambda _: {"statement": f"{TERMINAL_STATEMENT}BCDF-GHJK."},
    "another address": lambda _: {"address": Wallet("bob").address},
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_message_for_another_server_signs_nobody_in(
    server: ServerProcess, anybody: Api, change: str
) -> None:
    login_request = ANN.answer(challenge(anybody), **REFUSED[change](server))
    assert refusal(anybody, login_request) == refusal(
        anybody, {"message": "junk", "signature": "0x00"}
    )


@pytest.mark.parametrize("signature", ["0x", "0x0", "0x" + "00" * 65, "0x" + "ff" * 65, "0x1234"])
def test_a_malformed_signature_is_refused(anybody: Api, signature: str) -> None:
    login_request = {**ANN.answer(challenge(anybody)), "signature": signature}
    assert refusal(anybody, login_request)["code"] == "not_signed_in"


def refusal(api: Api, login_request: dict[str, Any]) -> dict[str, Any]:
    response: dict[str, Any] = api.post("/v1/auth/login", login_request)
    assert response["status"] == 401, response
    return response


def test_a_message_is_good_for_one_session(anybody: Api) -> None:
    login_request = ANN.answer(challenge(anybody))
    assert "access_token" in anybody.post("/v1/auth/login", login_request)
    refusal(anybody, login_request)
    twin = {**login_request, "signature": high_s_twin(login_request["signature"])}
    refusal(anybody, twin)


def test_the_twin_of_a_signature_is_as_good_as_the_signature(anybody: Api) -> None:
    """Which is why no signature is ever remembered as used: the nonce is."""
    login_request = ANN.answer(challenge(anybody))
    twin = {**login_request, "signature": high_s_twin(login_request["signature"])}
    assert "access_token" in anybody.post("/v1/auth/login", twin)
    refusal(anybody, login_request)


def high_s_twin(signature: str) -> str:
    raw = bytes.fromhex(signature[2:])
    s = GROUP_ORDER_INT - int.from_bytes(raw[32:64])
    return "0x" + (raw[:32] + s.to_bytes(32) + bytes([27 + 28 - raw[64]])).hex()


def test_a_refresh_token_is_good_once_and_a_second_use_ends_the_session(
    server: ServerProcess, anybody: Api
) -> None:
    first = ANN.sign_in(server.url)
    second = anybody.post("/v1/auth/refresh", {"refresh_token": first["refresh_token"]})
    newest = server.client(second["access_token"])
    assert newest.get("/v1/me")["address"] == ANN.address

    stolen = anybody.post("/v1/auth/refresh", {"refresh_token": first["refresh_token"]})
    assert stolen["status"] == 401
    assert newest.call("GET", "/v1/me").status == 401, "the whole family is over"
    spent = anybody.post("/v1/auth/refresh", {"refresh_token": second["refresh_token"]})
    assert spent["status"] == 401
    kinds = [entry["kind"] for entry in server.client().get("/v1/audit")["entries"]]
    assert "refresh_reused" in kinds


def test_logging_out_ends_this_session_and_no_other(server: ServerProcess, anybody: Api) -> None:
    first_session, second_session = ANN.sign_in(server.url), ANN.sign_in(server.url)
    first_client = server.client(first_session["access_token"])
    assert first_client.call("POST", "/v1/auth/logout").status == 204
    assert first_client.call("GET", "/v1/me").status == 401
    refreshed = anybody.post("/v1/auth/refresh", {"refresh_token": first_session["refresh_token"]})
    assert refreshed["status"] == 401
    assert server.client(second_session["access_token"]).call("GET", "/v1/me").status == 200


def test_sessions_are_listed_and_ended_one_by_one(server: ServerProcess) -> None:
    wallet = Wallet("with two sessions")
    api = server.client(server.sign_in(wallet))
    other = server.client(server.sign_in(wallet))
    sessions = api.get("/v1/me/sessions")["sessions"]
    assert [session["is_current"] for session in sessions].count(True) == 1 and len(sessions) == 2
    (foreign,) = [session["id"] for session in sessions if not session["is_current"]]
    stranger = server.client(server.sign_in(Wallet("a stranger")))
    assert stranger.call("DELETE", f"/v1/me/sessions/{foreign}").status == 404
    assert api.call("DELETE", f"/v1/me/sessions/{foreign}").status == 204
    assert api.call("DELETE", f"/v1/me/sessions/{foreign}").status == 404
    assert other.call("GET", "/v1/me").status == 401


def test_no_unauthenticated_call_writes_a_row(server: ServerProcess, anybody: Api) -> None:
    before = server.client().post("/v1/audit/verify", {})["entries"]
    for _ in range(20):
        refusal(anybody, {**ANN.answer(challenge(anybody)), "signature": "0x" + "11" * 65})
    assert server.client().post("/v1/audit/verify", {})["entries"] == before
