"""Roles, keys, invites and suspension, as their owners and the admins see them."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.databases import SHARED
from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet


def signed_in(server: ServerProcess, name: str) -> tuple[Api, str]:
    tokens = Wallet(name).sign_in(server.url)
    return server.client(tokens["access_token"]), tokens["account_id"]


def status(api: Api, method: str, path: str, value: bytes | None = b"{}") -> int:
    return api.call(method, path, value).status


def test_an_account_chooses_to_consume_and_to_provide_but_not_to_rule(
    server: ServerProcess,
) -> None:
    ann, _ = signed_in(server, "chooser")
    assert ann.put("/v1/me/roles", {"roles": ["provider"]})["roles"] == ["provider"]
    assert ann.call("GET", "/v1/tasks").status == 403
    assert ann.put("/v1/me/roles", {"roles": ["provider", "consumer"]})["roles"] == [
        "consumer",
        "provider",
    ]
    assert ann.put("/v1/me/roles", {"roles": ["admin"]})["status"] == 403
    assert ann.put("/v1/me/roles", {"roles": ["king"]})["status"] == 400
    assert ann.get("/v1/me")["roles"] == ["consumer", "provider"]


def test_an_admin_stays_admin_after_choosing_roles(server: ServerProcess) -> None:
    operator = server.client()
    assert operator.put("/v1/me/roles", {"roles": ["consumer"]})["roles"] == ["admin", "consumer"]
    all_roles = ["admin", "consumer", "provider"]
    assert operator.put("/v1/me/roles", {"roles": all_roles})["roles"] == all_roles


def test_an_admin_acts_until_the_role_is_removed(server: ServerProcess) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "an admin for a while")
    path = f"/v1/accounts/{ann_id}/roles"
    assert ann.call("GET", "/v1/accounts").status == 403
    assert status(operator, "PUT", path, b'{"roles":["admin"]}') == 204
    assert ann.call("GET", "/v1/accounts").status == 200
    assert status(operator, "PUT", path, b'{"roles":["consumer"]}') == 204
    assert ann.call("GET", "/v1/accounts").status == 403, "at the next call"


def test_the_last_admin_cannot_be_removed(server: ServerProcess) -> None:
    operator = server.client()
    me = operator.get("/v1/me")["id"]
    assert status(operator, "PUT", f"/v1/accounts/{me}/roles", b'{"roles":["consumer"]}') == 409
    assert status(operator, "POST", f"/v1/accounts/{me}/suspend") == 409
    assert operator.call("GET", "/v1/accounts").status == 200


def test_an_admin_sets_the_quota_of_an_account(server: ServerProcess) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "with a quota")
    assert ann.get("/v1/me")["quota"]["weight"] == 1
    path = f"/v1/accounts/{ann_id}/quota"
    quota = {
        "weight": 2.5,
        "max_running_devices": 4,
        "max_queued_tasks": 1,
        "max_priority": 10,
        "max_blob_bytes": 1000,
    }
    assert status(ann, "PUT", path, json.dumps(quota).encode()) == 403
    assert status(operator, "PUT", path, json.dumps(quota).encode()) == 204
    assert ann.get("/v1/me")["quota"] == quota
    (account,) = [
        account
        for account in operator.get("/v1/accounts?limit=1000")["accounts"]
        if account["id"] == ann_id
    ]
    assert account["quota"] == quota
    large = {"blob": {"sha256": "a" * 64, "size_bytes": 1001}}
    assert ann.post("/v1/uploads", large)["code"] == "quota_exceeded"
    waits = {"memory_bytes": 2**50}
    ann.submit("print(1)", requirements=waits)
    spec = {"kind": "script", "filename": "a.py", "source": "1"}
    response = ann.post("/v1/tasks", {"spec": spec, "requirements": waits})
    assert (response["status"], response["code"]) == (403, "quota_exceeded")
    assert status(operator, "PUT", path, b"{}") == 204, "as everybody again"
    assert ann.post("/v1/uploads", large)["parts_done"] == 0
    assert ann.get("/v1/me")["used_blob_bytes"] == 4096, "a file counts as that at least"
    ann.submit("print(1)", requirements=waits)
    changes = [
        entry for entry in operator.get("/v1/audit")["entries"] if entry["kind"] == "quota_set"
    ]
    assert [change["subject"] for change in changes[:2]] == [ann_id, ann_id]
    assert changes[1]["detail"] == {
        "weight": "2.5",
        "max_running_devices": "4",
        "max_queued_tasks": "1",
        "max_priority": "10",
        "max_blob_bytes": "1000",
    }


@pytest.mark.parametrize(
    "body",
    [
        b'{"weight":0}',
        b'{"weight":-1}',
        b'{"weight":1e9}',
        b'{"weight":NaN}',
        b'{"max_queued_tasks":-1}',
        b'{"max_queued_tasks":4294967296}',
        b'{"max_running_devices":1.5}',
        b'{"priority":1}',
        b'{"max_priority":101}',
        b'{"max_blob_bytes":-1}',
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(server: ServerProcess, body: bytes) -> None:
    me = server.client().get("/v1/me")["id"]
    assert status(server.client(), "PUT", f"/v1/accounts/{me}/quota", body) == 400


def test_a_suspended_account_is_out_at_the_next_call(server: ServerProcess) -> None:
    operator, (ann, ann_id) = server.client(), signed_in(server, "to be suspended")
    key = ann.post("/v1/me/keys", {"name": "ci", "scopes": ["tasks:read", "tasks:write"]})["secret"]
    task = ann.submit("print(1)")
    body = b'{"reason":"mining"}'
    assert status(operator, "POST", f"/v1/accounts/{ann_id}/suspend", body) == 204
    for api in (ann, server.client(key)):
        response = api.get("/v1/tasks")
        assert (response["status"], response["code"]) == (403, "account_suspended")
        assert "mining" in response["detail"]
    wallet = Wallet("to be suspended")
    challenge = ann.post("/v1/auth/challenge", {})
    assert ann.post("/v1/auth/login", wallet.answer(challenge))["code"] == "account_suspended"

    assert status(operator, "POST", f"/v1/accounts/{ann_id}/resume") == 204
    assert ann.task(task)["state"] == "cancelled"


def test_a_session_goes_on_after_a_suspension(server: ServerProcess) -> None:
    """A refresh that was refused meanwhile is no reuse."""
    operator, tokens = server.client(), Wallet("suspended for a while").sign_in(server.url)
    body = {"refresh_token": tokens["refresh_token"]}
    path = f"/v1/accounts/{tokens['account_id']}"
    assert status(operator, "POST", f"{path}/suspend") == 204
    assert operator.post("/v1/auth/refresh", body)["code"] == "account_suspended"
    assert status(operator, "POST", f"{path}/resume") == 204
    assert "access_token" in operator.post("/v1/auth/refresh", body)


def test_credit_has_an_end(server: ServerProcess) -> None:
    operator, (_, ann_id) = server.client(), signed_in(server, "very rich")
    path, much = f"/v1/accounts/{ann_id}/grants", b'{"amount_micro": %d}' % 2**53
    asyncio.run(put_balance(SHARED.of(server.directory), ann_id, 2**63 - 1 - 2**53))
    assert [status(operator, "POST", path, much) for _ in range(2)] == [204, 409]


async def put_balance(url: str, account_id: str, available_micro: int) -> None:
    """As a thousand grants would, each as large as one may be."""
    connection = await asyncpg.connect(url)
    try:
        sql = "UPDATE balances SET available_micro = $2 WHERE account_id = $1"
        assert await connection.execute(sql, account_id, available_micro) == "UPDATE 1"
    finally:
        await connection.close()


def test_a_key_carries_its_scopes_and_no_more(server: ServerProcess) -> None:
    ann, _ = signed_in(server, "with a key")
    created = ann.post("/v1/me/keys", {"name": "reader", "scopes": ["tasks:read"]})
    key = server.client(created["secret"])
    assert key.call("GET", "/v1/tasks").status == 200
    for method, path in (("GET", "/v1/me/ledger"), ("GET", "/v1/nodes"), ("POST", "/v1/me/keys")):
        assert key.call(method, path, b"{}" if method == "POST" else None).status == 403, path
    assert created["secret"] not in str(ann.get("/v1/me/keys"))
    assert [key["name"] for key in ann.get("/v1/me/keys")["keys"]] == ["reader"]


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\u2066", "\u0007", "\u2028"])
def test_a_name_reads_as_it_is(server: ServerProcess, sign: str) -> None:
    ann, _ = signed_in(server, "with a key")
    response = ann.post("/v1/me/keys", {"name": f"abc{sign}def", "scopes": ["tasks:read"]})
    assert response["status"] == 400


@pytest.mark.parametrize("scope", ["admin", "account:write", "node", "everything"])
def test_a_key_cannot_have_scopes_that_need_a_wallet(server: ServerProcess, scope: str) -> None:
    ann, _ = signed_in(server, "with a key")
    assert ann.post("/v1/me/keys", {"name": "x", "scopes": [scope]})["status"] == 400


def test_a_revoked_key_is_worth_nothing(server: ServerProcess) -> None:
    ann, _ = signed_in(server, "revokes a key")
    created = ann.post("/v1/me/keys", {"name": "x", "scopes": ["tasks:read"]})
    path = f"/v1/me/keys/{created['key']['id']}"
    stranger, _ = signed_in(server, "somebody else")
    assert stranger.call("DELETE", path).status == 404
    assert ann.call("DELETE", path).status == 204
    assert server.client(created["secret"]).call("GET", "/v1/tasks").status == 401
    assert ann.call("DELETE", path).status == 404


@pytest.fixture(scope="module")
def invited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("invited")
    with ServerProcess(directory, POTLUCK_REGISTRATION="invite") as running:
        yield running


def login(server: ServerProcess, name: str, invite: str | None = None) -> dict[str, Any]:
    api = server.client("")
    body = Wallet(name).answer(api.post("/v1/auth/challenge", {}))
    response: dict[str, Any] = api.post(
        "/v1/auth/login", body if invite is None else {**body, "invite": invite}
    )
    return response


def test_a_stranger_needs_an_invite(invited: ServerProcess) -> None:
    assert login(invited, "stranger")["code"] == "registration_closed"
    assert login(invited, "stranger", "potluck_invite_guess")["code"] == "registration_closed"
    offer = {"roles": ["provider"], "credit_micro": 5_000_000, "uses": 2}
    invite = invited.client().post("/v1/invites", offer)
    for name in ("one", "two"):
        tokens = login(invited, name, invite["code"])
        me = invited.client(tokens["access_token"]).get("/v1/me")
        assert (me["roles"], me["available_micro"]) == (["provider"], 5_000_000)
    assert login(invited, "three", invite["code"])["code"] == "registration_closed", "used up"
    assert "access_token" in login(invited, "one"), "who has an account needs none"
    second_invite = invited.client().post("/v1/invites", {"credit_micro": 1})
    assert "access_token" in login(invited, "one", second_invite["code"])
    uses_left = [invite["uses_left"] for invite in invited.client().get("/v1/invites")["invites"]]
    assert uses_left == [1], "an account that is there already uses none up"


def test_concurrent_sign_ins_of_a_wallet_use_one_invite(invited: ServerProcess) -> None:
    invite = invited.client().post("/v1/invites", {"uses": 8, "credit_micro": 3})
    with ThreadPoolExecutor(8) as threads:
        tokens = list(threads.map(lambda _: login(invited, "twins", invite["code"]), range(8)))
    assert len({token["account_id"] for token in tokens}) == 1
    assert invited.client(tokens[0]["access_token"]).get("/v1/me")["available_micro"] == 3
    invites = {invite["id"]: invite for invite in invited.client().get("/v1/invites")["invites"]}
    assert invites[invite["invite"]["id"]]["uses_left"] == 7


def test_a_revoked_invite_is_refused(invited: ServerProcess) -> None:
    operator = invited.client()
    invite = operator.post("/v1/invites", {})
    assert operator.call("DELETE", f"/v1/invites/{invite['invite']['id']}").status == 204
    assert login(invited, "late", invite["code"])["code"] == "registration_closed"


def test_a_closed_pool_refuses_new_accounts(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("closed")
    with ServerProcess(directory, POTLUCK_REGISTRATION="closed") as server:
        code = server.client().post("/v1/invites", {})["code"]
        assert login(server, "stranger", code)["code"] == "registration_closed"


def unowned(directory: Path) -> ServerProcess:
    return ServerProcess(
        directory, POTLUCK_OPERATOR="", POTLUCK_REGISTRATION="closed", POTLUCK_TIDY_SECONDS="0.2"
    )


def test_the_invite_in_the_data_directory_makes_the_first_admin(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("unowned")
    with unowned(directory) as server:
        path = directory / "server" / "admin-invite"
        assert server.first["admin_invite"] == str(path)
        assert path.stat().st_mode & 0o777 == 0o600
        code = path.read_text()
        first = server.client(login(server, "first", code)["access_token"])
        assert "admin" in first.get("/v1/me")["roles"]
        assert login(server, "second", code)["code"] == "registration_closed"
        await_true(lambda: not path.exists(), "the invite is gone with the first admin")
    with unowned(directory) as server:
        assert server.first["admin_invite"] is None and not path.exists()
