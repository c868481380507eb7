"""What is good for one use is used once, however many come with it at the same moment.

Two instances on one database are asked in parallel, so that no lock of one process can help.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from coincurve.utils import GROUP_ORDER_INT

from potluck.wire import routes
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT
from tests.databases import Databases
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

TIMES = 100
AT_ONCE = 32


class Instances:
    """Two servers that are one; the second knows the first's name as its own."""

    def __init__(self, first: ServerProcess, second: ServerProcess) -> None:
        self.first = first
        self._servers = [first, second]

    def clients(self, token: str = "") -> list[Api]:
        return [server.client(token) for server in self._servers]

    def challenge(self) -> Any:
        return self.first.client("").post(routes.CHALLENGE.path, {})

    def send(
        self, path: str, bodies: list[Any], token: str = "", **headers: str
    ) -> list[tuple[int, Any]]:
        """Each body, to one instance or the other, as many at once as there are hands."""
        both = self.clients(token)

        def call(number: int) -> tuple[int, Any]:
            body = msgspec.json.encode(bodies[number])
            response = both[number % 2].call("POST", path, body, **headers)
            return response.status, response.json()

        with ThreadPoolExecutor(AT_ONCE) as hands:
            return list(hands.map(call, range(len(bodies))))


@pytest.fixture(scope="module")
def instances(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instances]:
    directory = tmp_path_factory.mktemp("replay")
    with ExitStack() as stack:
        shared = {
            "POTLUCK_DATABASE_URL": stack.enter_context(databases.fresh()),
            "POTLUCK_REGISTRATION": "open",
            "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0",
        }
        first = stack.enter_context(ServerProcess(directory / "one", 0, **shared))
        second_settings = {**shared, "POTLUCK_PUBLIC_URL": first.url}
        second = stack.enter_context(ServerProcess(directory / "two", 0, **second_settings))
        yield Instances(first, second)


def statuses(answers: list[tuple[int, Any]]) -> Counter[int]:
    return Counter(status for status, _ in answers)


def test_a_signed_message_is_one_session(instances: Instances) -> None:
    wallet = Wallet("replayed")
    login = wallet.answer(instances.challenge())
    responses = instances.send(routes.LOGIN.path, [login] * TIMES)
    assert statuses(responses) == {201: 1, 401: TIMES - 1}
    refusals = [body for status, body in responses if status == 401]
    assert all(body == refusals[0] for body in refusals)
    assert _sessions(instances, responses) == 1


def test_both_signatures_of_a_message_are_one_session(instances: Instances) -> None:
    """The twin with n − s is as valid, so a signature is not what is remembered."""
    login = Wallet("twins").answer(instances.challenge())
    twin = {**login, "signature": _twin(login["signature"])}
    responses = instances.send(routes.LOGIN.path, [login, twin] * (TIMES // 2))
    assert statuses(responses) == {201: 1, 401: TIMES - 1}
    assert _sessions(instances, responses) == 1


def test_a_challenge_makes_one_session_only(instances: Instances) -> None:
    challenge = instances.challenge()
    logins = [Wallet(f"crowd {number}").answer(challenge) for number in range(TIMES)]
    assert statuses(instances.send(routes.LOGIN.path, logins)) == {201: 1, 401: TIMES - 1}


def test_concurrent_sign_ins_of_a_wallet_make_one_account(instances: Instances) -> None:
    wallet = Wallet("hasty")
    logins = [wallet.answer(instances.challenge()) for _ in range(20)]
    responses = instances.send(routes.LOGIN.path, logins)
    assert statuses(responses) == {201: 20}
    assert len({body["account_id"] for _, body in responses}) == 1


def test_a_refresh_token_is_one_pair_and_then_the_end(instances: Instances) -> None:
    tokens = Wallet("refreshed").sign_in(instances.first.url)
    body = {"refresh_token": tokens["refresh_token"]}
    responses = instances.send(routes.REFRESH.path, [body] * TIMES)
    assert statuses(responses) == {200: 1, 401: TIMES - 1}
    (next_pair,) = [body for status, body in responses if status == 200]
    # Somebody used it twice, and nobody knows who is the thief: the session is over for both.
    for token in (tokens["access_token"], next_pair["access_token"]):
        assert instances.first.client(token).call("GET", routes.ME.path).status == 401


def test_a_delegation_is_taken_once_and_a_node_s_message_too(instances: Instances) -> None:
    wallet, key = Wallet("owner"), Wallet("the node's key")
    token = wallet.sign_in(instances.first.url)["access_token"]
    instances.first.client(token).put(routes.CHOOSE_ROLES.path, {"roles": ["provider"]})
    body = {"delegation": wallet.delegation(instances.challenge(), key)}
    responses = instances.send(routes.AUTHORISE_NODE_KEY.path, [body] * TIMES, token)
    assert statuses(responses)[201] == 1 and set(statuses(responses)) <= {201, 400, 401, 403, 409}
    message = key.answer(instances.challenge(), statement=NODE_STATEMENT)
    responses = instances.send(routes.NODE_LOGIN.path, [message] * TIMES)
    assert statuses(responses) == {200: 1, 401: TIMES - 1}


def test_an_invite_for_one_admits_one_account(instances: Instances) -> None:
    admin = instances.first.client()
    invite = admin.post(routes.MAKE_INVITE.path, {"roles": ["provider"], "credit_micro": 1000})
    logins = [
        {**Wallet(f"invited {number}").answer(instances.challenge()), "invite": invite["code"]}
        for number in range(30)
    ]
    responses = instances.send(routes.LOGIN.path, logins)
    assert statuses(responses)[201] == 1 and statuses(responses)[403] == 29


def test_an_idempotency_key_is_one_task(instances: Instances) -> None:
    token = Wallet("submitter").sign_in(instances.first.url)["access_token"]
    task = {"spec": {"kind": "script", "filename": "a.py", "source": "print(1)"}}
    responses = instances.send(
        routes.SUBMIT_TASK.path, [task] * TIMES, token, Idempotency_Key="once"
    )
    assert len({body["id"] for _, body in responses}) == 1


def _sessions(instances: Instances, answers: list[tuple[int, Any]]) -> int:
    (token,) = [body["access_token"] for status, body in answers if status == 201]
    return len(instances.first.client(token).get(routes.LIST_SESSIONS.path)["sessions"])


def _twin(signature: str) -> str:
    signed = bytes.fromhex(signature[2:])
    other = GROUP_ORDER_INT - int.from_bytes(signed[32:64])
    return f"0x{(signed[:32] + other.to_bytes(32) + bytes([55 - signed[64]])).hex()}"
