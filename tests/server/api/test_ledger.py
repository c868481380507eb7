"""One's own ledger over HTTP: pages, filters, a summary, and what cannot be asked."""

from typing import Any

import pytest

from potluck.consumer import Potluck
from potluck.model.credit import EntryKind
from potluck.model.error import InvalidInput
from potluck.wire import routes
from potluck.wire.money.ledger import LineBy
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet


@pytest.fixture(scope="module")
def rich(server: ServerProcess) -> Api:
    """Somebody who was given one, two and three micro-credits."""
    api = server.client(server.sign_in(Wallet("who was given credit")))
    account_id = api.get(routes.ME.path)["id"]
    for amount in (1, 2, 3):
        body = f'{{"amount_micro": {amount}}}'.encode()
        path = routes.GRANT_CREDIT.url(account_id=account_id)
        assert server.client().call("POST", path, body).status < 300
    return api


def amounts(page: Any) -> list[int]:
    return [each["available_micro"] for each in page["entries"]]


def test_pages_of_entries(rich: Api) -> None:
    first = rich.get(f"{routes.LEDGER.path}?limit=2")
    assert amounts(first) == [3, 2]
    rest = rich.get(f"{routes.LEDGER.path}?limit=2&cursor={first['next_cursor']}")
    assert amounts(rest) == [1] and rest["next_cursor"] is None
    assert {each["kind"] for each in first["entries"]} == {"grant"}


def test_filters(rich: Api) -> None:
    assert amounts(rich.get(f"{routes.LEDGER.path}?kind=grant&kind=hold")) == [3, 2, 1]
    assert amounts(rich.get(f"{routes.LEDGER.path}?kind=charge")) == []
    assert amounts(rich.get(f"{routes.LEDGER.path}?until=2020-01-01T00:00:00Z")) == []
    assert amounts(rich.get(f"{routes.LEDGER.path}?since=2020-01-01T00:00:00Z")) == [3, 2, 1]
    task = "task_01jd0000000000000000000000"
    assert amounts(rich.get(f"{routes.LEDGER.path}?task_id={task}")) == []


def test_the_summary(rich: Api) -> None:
    found = rich.get(routes.LEDGER_SUMMARY.path)
    assert (found["available_micro"], found["held_micro"], found["granted_micro"]) == (6, 0, 6)
    assert [each["granted_micro"] for each in found["lines"]] == [6]
    assert found["is_free"] is True
    old = rich.get(f"{routes.LEDGER_SUMMARY.path}?until=2020-01-01T00:00:00Z&by=task")
    assert (old["granted_micro"], old["lines"], old["available_micro"]) == (0, [], 6)


def test_objects_of_other_accounts_are_hidden(server: ServerProcess, rich: Api) -> None:
    stranger = server.client(server.sign_in(Wallet("who was given nothing")))
    assert amounts(stranger.get(routes.LEDGER.path)) == []
    assert stranger.get(routes.LEDGER_SUMMARY.path)["granted_micro"] == 0
    cursor = rich.get(f"{routes.LEDGER.path}?limit=1")["next_cursor"]
    answer = stranger.call("GET", f"{routes.LEDGER.path}?cursor={cursor}")
    assert (answer.status, answer.json()["detail"]) == (400, "The cursor is not valid.")


WRONG = [
    *("kind=gift", "cursor=x", "cursor=0", f"cursor={2**64}", "limit=0", "limit=501"),
    *("since=yesterday", "since=2026-01-01T00:00:00", "until=9999-12-31T23:00:00-12:00"),
    *("task_id=hello", "task_id=task_1"),
]


@pytest.mark.parametrize("query", WRONG)
def test_invalid_queries_are_refused(rich: Api, query: str) -> None:
    answer = rich.call("GET", f"{routes.LEDGER.path}?{query}")
    assert (answer.status, answer.json()["code"]) == (400, "invalid_input"), query


def test_a_summary_of_ages_is_refused(rich: Api) -> None:
    path = f"{routes.LEDGER_SUMMARY.path}?until=2026-01-01T00:00:00Z"
    assert rich.call("GET", f"{path}&since=2024-12-01T00:00:00Z").status == 200
    answer = rich.call("GET", f"{path}&since=2024-11-01T00:00:00Z")
    assert (answer.status, answer.json()["detail"]) == (400, "A summary covers at most 400 days.")


def test_a_summary_by_what_is_no_line(rich: Api) -> None:
    assert rich.call("GET", f"{routes.LEDGER_SUMMARY.path}?by=week").status == 400


def test_the_client_reads_it(server: ServerProcess) -> None:
    token = server.sign_in(Wallet("who was given credit"))
    with Potluck(server.url, token) as client:
        assert client.ledger.balance().available_micro == 6
        assert client.ledger.balance().available == 6e-6
        entries = list(client.ledger.entries([EntryKind.GRANT]))
        assert [each.available_micro for each in entries] == [3, 2, 1]
        page = client.ledger.page(limit=1)
        assert client.ledger.page(page.next_cursor).entries == entries[1:]
        assert client.ledger.summary(LineBy.TASK).granted_micro == 6
        with pytest.raises(InvalidInput, match="not the id of a task"):
            client.ledger.page(task_id="hello")
