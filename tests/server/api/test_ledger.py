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
    return [entry["available_micro"] for entry in page["entries"]]


def test_pages_of_entries(rich: Api) -> None:
    first = rich.get(f"{routes.LEDGER.path}?limit=2")
    assert amounts(first) == [3, 2]
    next_page = rich.get(f"{routes.LEDGER.path}?limit=2&cursor={first['next_cursor']}")
    assert amounts(next_page) == [1] and next_page["next_cursor"] is None
    assert {entry["kind"] for entry in first["entries"]} == {"grant"}


def test_filters(rich: Api) -> None:
    assert amounts(rich.get(f"{routes.LEDGER.path}?kind=grant&kind=hold")) == [3, 2, 1]
    assert amounts(rich.get(f"{routes.LEDGER.path}?kind=charge")) == []
    assert amounts(rich.get(f"{routes.LEDGER.path}?until=2020-01-01T00:00:00Z")) == []
    assert amounts(rich.get(f"{routes.LEDGER.path}?since=2020-01-01T00:00:00Z")) == [3, 2, 1]
    task = "task_01jd0000000000000000000000"
    assert amounts(rich.get(f"{routes.LEDGER.path}?task_id={task}")) == []


def test_the_summary(rich: Api) -> None:
    summary = rich.get(routes.LEDGER_SUMMARY.path)
    assert (summary["available_micro"], summary["held_micro"], summary["granted_micro"]) == (
        6,
        0,
        6,
    )
    assert [line["granted_micro"] for line in summary["lines"]] == [6]
    assert summary["is_free"] is True
    old = rich.get(f"{routes.LEDGER_SUMMARY.path}?until=2020-01-01T00:00:00Z&by=task")
    assert (old["granted_micro"], old["lines"], old["available_micro"]) == (0, [], 6)


def test_objects_of_other_accounts_are_hidden(server: ServerProcess, rich: Api) -> None:
    stranger = server.client(server.sign_in(Wallet("who was given nothing")))
    assert amounts(stranger.get(routes.LEDGER.path)) == []
    assert stranger.get(routes.LEDGER_SUMMARY.path)["granted_micro"] == 0
    cursor = rich.get(f"{routes.LEDGER.path}?limit=1")["next_cursor"]
    response = stranger.call("GET", f"{routes.LEDGER.path}?cursor={cursor}")
    assert (response.status, response.json()["detail"]) == (400, "The cursor is not valid.")


WRONG = [
    *("kind=gift", "cursor=x", "cursor=0", f"cursor={2**64}", "limit=0", "limit=501"),
    *("since=yesterday", "since=2026-01-01T00:00:00", "until=9999-12-31T23:00:00-12:00"),
    *("task_id=hello", "task_id=task_1"),
]


@pytest.mark.parametrize("query", WRONG)
def test_invalid_queries_are_refused(rich: Api, query: str) -> None:
    response = rich.call("GET", f"{routes.LEDGER.path}?{query}")
    assert (response.status, response.json()["code"]) == (400, "invalid_input"), query


def test_a_summary_of_ages_is_refused(rich: Api) -> None:
    path = f"{routes.LEDGER_SUMMARY.path}?until=2026-01-01T00:00:00Z"
    assert rich.call("GET", f"{path}&since=2024-12-01T00:00:00Z").status == 200
    response = rich.call("GET", f"{path}&since=2024-11-01T00:00:00Z")
    assert (response.status, response.json()["detail"]) == (
        400,
        "A summary covers at most 400 days.",
    )


def test_a_summary_by_an_unknown_period_is_refused(rich: Api) -> None:
    assert rich.call("GET", f"{routes.LEDGER_SUMMARY.path}?by=week").status == 400


def test_the_client_reads_it(server: ServerProcess) -> None:
    token = server.sign_in(Wallet("who was given credit"))
    with Potluck(server.url, token) as client:
        assert client.ledger.balance().available_micro == 6
        assert client.ledger.balance().available == 6e-6
        entries = list(client.ledger.entries([EntryKind.GRANT]))
        assert [entry.available_micro for entry in entries] == [3, 2, 1]
        page = client.ledger.page(limit=1)
        assert client.ledger.page(page.next_cursor).entries == entries[1:]
        assert client.ledger.summary(LineBy.TASK).granted_micro == 6
        with pytest.raises(InvalidInput, match="not the id of a task"):
            client.ledger.page(task_id="hello")
