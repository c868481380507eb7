"""What an API key opens, and what it is told where it opens nothing."""

import json
from typing import Any

import pytest

from potluck.cli.account.keys import DEFAULT_SCOPES
from potluck.model.event import EventKind
from tests.processes import Api, ServerProcess, await_true
from tests.security.people import Person
from tests.server.api.test_event_api import first_of_the_stream
from tests.wallets import Wallet


def key(server: ServerProcess, owner: Api, *scopes: str) -> Api:
    created = owner.post("/v1/me/keys", {"name": "a test", "scopes": scopes})
    return server.client(created["secret"])


@pytest.fixture(scope="module")
def owner(server: ServerProcess) -> Api:
    return server.client(server.sign_in(Wallet("has keys")))


def test_the_usual_key_hears_of_its_tasks_and_knows_who_it_is(
    server: ServerProcess, owner: Api
) -> None:
    usual = key(server, owner, *DEFAULT_SCOPES)
    task_id = usual.submit("print('waits')", requirements={"memory_bytes": 2**50})
    page = await_true(lambda: _told(usual.get("/v1/events")), "it is told")
    assert page["events"][-1]["task_id"] == task_id
    me = usual.get("/v1/me")
    assert (me["signed_in_by"], me["scopes"]) == ("key", sorted(DEFAULT_SCOPES))
    assert b"event: task.queued" in first_of_the_stream(server, usual)


def test_a_key_for_tasks_hears_of_nothing_else(server: ServerProcess) -> None:
    """Its machine came online, and a task waits for another."""
    owner = Person(server, "has a machine and tasks").api
    wide = key(server, owner, "tasks:read", "account:read")
    narrow = key(server, owner, "tasks:read")
    await_true(lambda: {"node.online", "task.queued"} <= kinds(wide), "both are told")
    assert {kind.partition(".")[0] for kind in kinds(narrow)} <= {"task", "attempt"}
    assert {kind.partition(".")[0] for kind in kinds(narrow, "&order=newest")} == {"task"}
    response = narrow.call("GET", "/v1/events?kind=task.queued&kind=node.silent")
    assert response.status == 403 and "`account:read`" in response.json()["detail"]
    assert narrow.call("GET", "/v1/events/follow?kind=webhook.test").status == 403


def kinds(api: Api, query: str = "") -> set[str]:
    return {event["kind"] for event in api.get(f"/v1/events?limit=500{query}")["events"]}


def test_every_kind_of_event_is_of_a_task_or_not() -> None:
    others = {kind.partition(".")[0] for kind in EventKind if not kind.is_of_task}
    assert others == {"node", "device", "webhook"}


@pytest.mark.parametrize(
    ("method", "path", "hint"),
    [
        ("GET", "/v1/webhooks", "No API key can have it."),
        ("POST", "/v1/me/keys", "No API key can have it."),
        ("GET", "/v1/accounts", "No API key can have it."),
        ("GET", "/v1/me/ledger", "--scope account:read"),
        ("GET", "/v1/events", "--scope tasks:read"),
        ("POST", "/v1/nodes", "potluck provide"),
    ],
)
def test_a_key_is_sent_for_what_would_do(
    server: ServerProcess, owner: Api, method: str, path: str, hint: str
) -> None:
    """And never for a key that nobody can make."""
    response = key(server, owner, "pool:read").call(
        method, path, b"{}" if method == "POST" else None
    )
    problem = response.json()
    assert response.status == 403 and hint in problem["hint"], problem
    assert ("potluck login" in problem["hint"]) == (hint == "No API key can have it.")


def test_the_document_names_the_scopes_of_each_operation(server: ServerProcess) -> None:
    document: dict[str, Any] = json.loads(server.client().call("GET", "/schema/openapi.json").data)
    descriptions = {
        operation["operationId"]: operation["description"]
        for methods in document["paths"].values()
        for operation in methods.values()
    }
    assert "Requires the scope `account:read` or `tasks:read`." in descriptions["follow_events"]
    assert "Requires the scope `account:write`." in descriptions["make_webhook"]


def _told(page: Any) -> Any:
    return page if page.get("events") else None
