"""`GET /v1/tasks` with its filters and pages."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.security.people import TASK
from tests.wallets import Wallet


@pytest.fixture(scope="module")
def ann(server: ServerProcess) -> Api:
    """Has two tasks that wait under each of two names, the older of each cancelled."""
    ann = server.client(server.sign_in(Wallet("ann lists")))
    for name in ("a.py", "b.py", "a.py", "b.py"):
        ann.post(routes.SUBMIT_TASK.path, {**TASK, "name": name})
    for task in listed(ann)[2:]:
        ann.post(routes.CANCEL_TASK.url(task_id=task["id"]), {})
    return ann


def listed(api: Api, *filters: tuple[str, str]) -> list[Any]:
    tasks: list[Any] = api.get(f"{routes.LIST_TASKS.path}?{urlencode(filters)}")["tasks"]
    return tasks


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ((), "b a b a"),
        ((("state", "queued"),), "b a"),
        ((("state", "queued"), ("state", "cancelled"), ("state", "failed")), "b a b a"),
        ((("name", "a.py"),), "a a"),
        ((("name", "a.py"), ("state", "cancelled")), "a"),
        ((("name", "A.py"),), ""),
        ((("kind", "script"),), "b a b a"),
        ((("since", "2020-01-01T00:00:00Z"),), "b a b a"),
        ((("until", "2020-01-01T00:00:00Z"),), ""),
    ],
)
def test_filters(ann: Api, filters: tuple[tuple[str, str], ...], names: str) -> None:
    assert [task["name"][0] for task in listed(ann, *filters)] == names.split()


def test_a_time_between_two_tasks_parts_them(ann: Api) -> None:
    tasks = listed(ann)
    # The time in an id is that of the server's clock, a moment before the row is written.
    second = datetime.fromisoformat(tasks[2]["created_at"]) - timedelta(seconds=0)
    earlier = [task for task in tasks if datetime.fromisoformat(task["created_at"]) < second]
    margin = timedelta(milliseconds=50)
    before = listed(ann, ("until", (second + margin).isoformat()))
    after = listed(ann, ("since", (second + margin).isoformat()))
    assert [task["id"] for task in [*after, *before]] == [task["id"] for task in tasks]
    assert {task["id"] for task in earlier} <= {task["id"] for task in before}


def test_each_page_continues_after_the_previous_one(ann: Api) -> None:
    task_ids: list[str] = []
    cursor: tuple[tuple[str, str], ...] = ()
    while True:
        query = urlencode([("limit", "1"), ("state", "queued"), ("state", "cancelled"), *cursor])
        page = ann.get(f"{routes.LIST_TASKS.path}?{query}")
        task_ids += [task["id"] for task in page["tasks"]]
        if page.get("next_cursor") is None:
            break
        cursor = (("cursor", page["next_cursor"]),)
    assert task_ids == [task["id"] for task in listed(ann)]


def test_a_page_of_large_tasks_is_shorter_than_its_limit(server: ServerProcess) -> None:
    """A page of 500 was 14 MB, which took the event loop 145 ms."""
    cat = server.client(server.sign_in(Wallet("cat lists")))
    needs = {
        "owners": [f"0x{number:040x}" for number in range(100)],
        "labels": [f"{number}={'a' * 190}" for number in range(32)],
    }
    task = {**TASK, "requirements": needs, "limits": {"keep": ["b" * 190] * 16}}
    for _ in range(2):
        submitted = cat.post(routes.SUBMIT_TASKS.path, {"tasks": [task] * 60})
        assert all(answer["task_id"] for answer in submitted["tasks"])
    first = cat.get(f"{routes.LIST_TASKS.path}?limit=500")
    assert 60 < len(first["tasks"]) < 120
    assert first["next_cursor"] == first["tasks"][-1]["id"]
    second = cat.get(f"{routes.LIST_TASKS.path}?limit=500&cursor={first['next_cursor']}")
    ids = [task["id"] for page in (first, second) for task in page["tasks"]]
    assert (len(set(ids)), second["next_cursor"]) == (120, None)


def test_lists_have_only_own_objects(server: ServerProcess, ann: Api) -> None:
    bob = server.client(server.sign_in(Wallet("bob lists")))
    newest = listed(ann)[0]["id"]
    assert listed(bob) == listed(bob, ("name", "a.py")) == listed(bob, ("cursor", newest)) == []


@pytest.mark.parametrize(
    "filters",
    [
        ("kind", "cake"),
        ("since", "yesterday"),
        ("since", "2020-01-01T00:00:00"),  # whose midnight?
        ("name", "a\0b"),
        ("name", "x" * 201),
        ("state", "lost"),
        ("cursor", "abc"),
        ("cursor", ""),
    ],
)
def test_a_bad_filter_gets_a_sentence(ann: Api, filters: tuple[str, str]) -> None:
    response = ann.call("GET", f"{routes.LIST_TASKS.path}?{urlencode([filters])}")
    assert (response.status, response.json()["code"]) == (400, "invalid_input"), response.data
