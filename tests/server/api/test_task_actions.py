"""Cancelling and retrying many tasks: what the preview lists is touched, and nothing else."""

from typing import Any

import pytest

from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.security.people import TASK
from tests.wallets import Wallet


@pytest.fixture
def ann(server: ServerProcess, request: pytest.FixtureRequest) -> Api:
    return server.client(server.sign_in(Wallet(f"acts: {request.node.name}")))


def submit(api: Api, *names: str) -> list[str]:
    return [api.post(routes.SUBMIT_TASK.path, {**TASK, "name": name})["id"] for name in names]


def preview(api: Api, action: str, **selection: Any) -> Any:
    request = {"action": action, "selection": selection}
    return api.post(routes.PREVIEW_ACTION.path, request)


def apply(api: Api, action: str, tasks: list[Any], **headers: str) -> list[Any]:
    targets = [{"id": task["id"], "version": task["version"]} for task in tasks]
    request = {"action": action, "tasks": targets}
    results: list[Any] = api.post(routes.APPLY_ACTION.path, request, **headers)["results"]
    return results


def states(api: Api) -> list[str]:
    return [task["state"] for task in api.get(routes.LIST_TASKS.path)["tasks"]]


def test_a_preview_lists_what_the_action_applies_to_and_changes_nothing(ann: Api) -> None:
    first, second, third = submit(ann, "a.py", "b.py", "a.py")
    ann.post(routes.CANCEL_TASK.url(task_id=first), {})
    cancel_preview = preview(ann, "cancel")
    assert [task["id"] for task in cancel_preview["tasks"]] == [third, second]
    assert cancel_preview["has_more"] is False and cancel_preview["tasks"][0]["state"] == "queued"
    assert [task["id"] for task in preview(ann, "cancel", name="a.py")["tasks"]] == [third]
    assert [task["id"] for task in preview(ann, "retry")["tasks"]] == [first]
    assert preview(ann, "retry", states=["queued"])["tasks"] == []
    assert preview(ann, "cancel", until="2020-01-01T00:00:00Z")["tasks"] == []
    assert states(ann) == ["queued", "queued", "cancelled"]


def test_only_the_listed_tasks_are_cancelled(ann: Api) -> None:
    submit(ann, "a.py", "a.py")
    tasks = preview(ann, "cancel", name="a.py")["tasks"]
    submit(ann, "a.py")  # it came after the preview
    assert [result["outcome"] for result in apply(ann, "cancel", tasks)] == ["done", "done"]
    assert states(ann) == ["queued", "cancelled", "cancelled"]
    assert [result["outcome"] for result in apply(ann, "cancel", tasks)] == ["changed", "changed"]


def test_a_task_that_has_changed_since_the_preview_is_left_alone(ann: Api) -> None:
    submit(ann, "a.py", "b.py")
    newer, older = preview(ann, "cancel")["tasks"]
    stale = {**older, "version": older["version"] + 1}
    cancelled, changed = apply(ann, "cancel", [newer, stale])
    assert (cancelled["outcome"], changed["outcome"]) == ("done", "changed")
    assert changed["detail"] == "It has changed since the preview."
    assert states(ann) == ["cancelled", "queued"]


def test_a_repeated_retry_makes_no_second_task(ann: Api) -> None:
    (task_id,) = submit(ann, "a.py")
    ann.post(routes.CANCEL_TASK.url(task_id=task_id), {})
    tasks = preview(ann, "retry")["tasks"]
    (first,) = apply(ann, "retry", tasks, Idempotency_Key="once")
    (repeated,) = apply(ann, "retry", tasks, Idempotency_Key="once")
    assert first["outcome"] == repeated["outcome"] == "done"
    assert first["new_task_id"] == repeated["new_task_id"]
    assert ann.task(first["new_task_id"])["retry_of"] == task_id
    assert len(states(ann)) == 2


def test_a_refusal_says_why_and_does_not_affect_the_others(ann: Api, server: ServerProcess) -> None:
    ended_id, waiting = submit(ann, "a.py", "b.py")
    ann.post(routes.CANCEL_TASK.url(task_id=ended_id), {})
    (foreign,) = submit(server.client(), "not yours")
    stranger = server.client().task(foreign)
    tasks = [stranger, ann.task(waiting), ann.task(ended_id)]
    results = apply(ann, "retry", tasks)
    assert [result["outcome"] for result in results] == ["refused", "refused", "done"]
    assert results[0]["detail"].startswith("You have no task"), results[0]
    assert "has not ended yet" in results[1]["detail"]
    assert server.client().task(foreign)["state"] == "queued"
    server.client().post(routes.CANCEL_TASK.url(task_id=foreign), {})


def test_another_account_is_shown_nothing(ann: Api, server: ServerProcess) -> None:
    submit(ann, "a.py")
    stranger = server.client(server.sign_in(Wallet("a stranger who acts")))
    assert preview(stranger, "cancel")["tasks"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"action": "delete"},
        {"action": "cancel", "selection": {"kind": "dream"}},
        {"action": "cancel", "selection": {"name": "\0"}},
        {"action": "cancel", "selection": {"state": "queued"}},
        {"action": "cancel", "selection": {"since": "yesterday"}},
    ],
)
def test_a_wrong_preview_is_refused(ann: Api, body: Any) -> None:
    assert ann.post(routes.PREVIEW_ACTION.path, body)["status"] == 400


@pytest.mark.parametrize(
    "tasks",
    [[], [{"id": "task_x", "version": 1}], [{"id": "x", "version": -1}], [{"id": 1}], [{}] * 101],
)
def test_a_wrong_action_is_refused(ann: Api, tasks: Any) -> None:
    response = ann.post(routes.APPLY_ACTION.path, {"action": "cancel", "tasks": tasks})
    assert response["status"] in (400, 404)


def test_a_selection_by_a_part_of_the_name_touches_no_other(ann: Api) -> None:
    ids = submit(ann, "a-b", "B-c", "d")
    assert [task["id"] for task in ann.get("/v1/tasks?find=b")["tasks"]] == [ids[1], ids[0]]
    assert ann.get("/v1/tasks/counts?find=b")["counts"]["queued"] == 2
    found = preview(ann, "cancel", find="b")
    assert {task["id"] for task in found["tasks"]} == set(ids[:2]) and not found["has_more"]
    both = ann.call("GET", "/v1/tasks?find=b&name=a-b")
    assert (both.status, both.json()["code"]) == (400, "invalid_input")
