"""An estimate over HTTP: a submission's body and rules, and nothing that stays."""

import msgspec

from potluck.wire import routes
from tests.processes import ServerProcess
from tests.wallets import Wallet

TASK = {"spec": {"kind": "script", "filename": "a.py", "source": "print(1)"}}


def test_a_question_is_answered_and_forgotten(server: ServerProcess) -> None:
    client = server.client()
    before = client.get(routes.LIST_TASKS.path)["tasks"]
    response = client.call("POST", routes.ESTIMATE_TASK.path, msgspec.json.encode(TASK))
    assert response.status == 200
    estimate = response.json()
    assert estimate["outlook"] in ("now", "later", "never") and estimate["sentence"]
    assert estimate["at"] is not None and estimate["can_pay"]
    assert client.get(routes.LIST_TASKS.path)["tasks"] == before


def test_the_rate_of_estimates_is_limited(server: ServerProcess) -> None:
    client = server.client(server.sign_in(Wallet("who is curious")))
    body = msgspec.json.encode({**TASK, "after": ["task_01jd0000000000000000000000"]})
    statuses = [client.call("POST", routes.ESTIMATE_TASK.path, body).status for _ in range(40)]
    assert set(statuses[:20]) == {400} and 429 in statuses
    assert client.call("POST", routes.SUBMIT_TASK.path, body).status == 400, "all else goes on"


def test_estimates_refuse_what_submit_refuses(server: ServerProcess) -> None:
    for body in ({**TASK, "surprise": 1}, {**TASK, "delay_seconds": 9, "start_within_seconds": 5}):
        estimate_response, submit_response = (
            server.client().call("POST", route.path, msgspec.json.encode(body))
            for route in (routes.ESTIMATE_TASK, routes.SUBMIT_TASK)
        )
        assert (estimate_response.status, estimate_response.json()) == (
            submit_response.status,
            submit_response.json(),
        )
        assert estimate_response.status == 400
