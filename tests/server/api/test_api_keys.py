"""API keys: how many an account can have, their pages, and revoking all of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from potluck.model.account import MOST_KEYS
from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

KEY = {"name": "ci", "scopes": ["tasks:read"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Counts nobody's calls: a hundred keys are made in a row."""
    directory = tmp_path_factory.mktemp("server")
    with ServerProcess(directory, POTLUCK_ACCOUNT_REQUESTS_PER_SECOND="0") as running:
        yield running


@pytest.fixture
def owner(server: ServerProcess, request: pytest.FixtureRequest) -> Api:
    return server.client(server.sign_in(Wallet(request.node.name)))


def make(api: Api, **headers: str) -> int:
    return int(api.post(routes.MAKE_KEY.path, KEY, **headers).get("status", 201))


def ids(api: Api, query: str = "") -> list[str]:
    return [key["id"] for key in api.get(f"{routes.LIST_KEYS.path}{query}")["keys"]]


def test_an_account_has_at_most_a_hundred_keys_also_at_once(
    server: ServerProcess, owner: Api
) -> None:
    for _ in range(MOST_KEYS - 3):
        assert make(owner) == 201
    with ThreadPoolExecutor(8) as threads:
        statuses = sorted(threads.map(lambda _: make(owner), range(8)))
    assert statuses == [201] * 3 + [403] * 5 and len(ids(owner)) == MOST_KEYS == 100
    response = owner.post(routes.MAKE_KEY.path, KEY)
    assert response["code"] == "quota_exceeded" and "100 API keys" in response["detail"]
    assert "potluck keys revoke" in response["hint"]
    owner.call("DELETE", routes.REVOKE_KEY.url(key_id=ids(owner)[0]))
    assert make(owner, Idempotency_Key="the last one") == 201
    assert make(owner, Idempotency_Key="the last one") == 201, "a repeat makes no other"
    assert make(owner) == 403
    assert make(server.client(server.sign_in(Wallet("another owner")))) == 201


def test_all_keys_are_revoked_at_once_and_those_of_others_stay(
    server: ServerProcess, owner: Api
) -> None:
    other = server.client(server.sign_in(Wallet("keeps a key")))
    other_key = other.post(routes.MAKE_KEY.path, KEY)
    secrets = [owner.post(routes.MAKE_KEY.path, KEY)["secret"] for _ in range(3)]
    key_ids = ids(owner)
    response = owner.call("DELETE", routes.REVOKE_KEYS.path)
    assert response.status == 200 and sorted(response.json()["revoked"]) == sorted(key_ids)
    for secret in secrets:
        assert server.client(secret).call("GET", "/v1/tasks").status == 401
    assert ids(owner) == [] and ids(other) == [other_key["key"]["id"]]
    assert server.client(other_key["secret"]).call("GET", "/v1/tasks").status == 200
    assert owner.call("DELETE", routes.REVOKE_KEYS.path).json() == {"revoked": []}
    entries = server.client().get(routes.AUDIT.path)["entries"]
    (entry,) = [entry for entry in entries if entry["kind"] == "keys_revoked"]
    assert entry["detail"]["count"] == "3" and set(entry["detail"]["keys"].split()) == set(key_ids)


def test_keys_have_pages(owner: Api) -> None:
    for _ in range(5):
        make(owner)
    pages, cursor = [], ""
    while True:
        page = owner.get(f"{routes.LIST_KEYS.path}?limit=2{cursor}")
        pages.append([key["id"] for key in page["keys"]])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [key_id for page in pages for key_id in page] == ids(owner)
    assert owner.call("GET", f"{routes.LIST_KEYS.path}?cursor=nonsense").status == 400
