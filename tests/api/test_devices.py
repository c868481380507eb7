"""The devices of a pool: everybody sees what is free, and only two see what for."""

from collections.abc import Iterator
from typing import Any

import pytest

from potluck.wire import routes
from tests.processes import Api, ServerProcess, await_true
from tests.security.people import SCRIPT, Person


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One that does not take an assignment back because nobody fetched it."""
    directory = tmp_path_factory.mktemp("server")
    with ServerProcess(
        directory,
        POTLUCK_FETCH_SECONDS="60",
        POTLUCK_SILENT_AFTER_SECONDS="60",
        POTLUCK_LEASE_SECONDS="120",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def owner(server: ServerProcess) -> Person:
    return Person(server, "owner")


@pytest.fixture(scope="module")
def consumer(server: ServerProcess) -> Person:
    """Whose own node has left, so that its tasks go to the owner's."""
    consumer = Person(server, "consumer")
    node = server.client(consumer.node_token())
    assert node.call("POST", routes.LEAVE.url(node_id=consumer.node_id), b"").status == 204
    return consumer


def devices(api: Api, query: str = "") -> list[Any]:
    found: list[Any] = api.get(f"{routes.LIST_DEVICES.path}{query}")["devices"]
    return found


def the_device(api: Api, node_id: str) -> Any:
    (found,) = [each for each in devices(api) if each["node_id"] == node_id]
    return found


def test_only_the_tasks_and_the_nodes_owner_see_which_attempt_a_device_serves(
    server: ServerProcess, owner: Person, consumer: Person
) -> None:
    idle = the_device(consumer.api, owner.node_id)
    assert (idle["free_milli"], idle["uses"], idle["is_mine"]) == (1000, [], False)
    assert (idle["node_state"], idle["standing"]) == ("online", "bound")
    memory = idle["description"]["memory_bytes"]
    wanted = {"device_milli": 250, "device_memory_bytes": 2**20, "device_kind": "gpu"}
    task = {"spec": SCRIPT, "requirements": wanted}
    task_id = consumer.api.post(routes.SUBMIT_TASK.path, task)["id"]
    (attempt,) = await_true(lambda: consumer.api.task(task_id)["attempts"], "it is assigned")
    named = {"attempt_id": attempt["id"], "task_id": task_id}
    (told,) = attempt["devices"]
    assert (told["device_id"], told["model"]) == (idle["id"], idle["description"]["model"])
    milli, memory_bytes = told["milli"], told["memory_bytes"]
    assert (milli, memory_bytes) == (250, 2**20)
    free = (1000 - milli, memory - memory_bytes)
    stranger = Person(server, "stranger")
    for api, seen in (
        (consumer.api, named),
        (owner.api, named),
        (stranger.api, {}),
        (server.client(), {}),  # an admin has no business with it either
    ):
        device = the_device(api, owner.node_id)
        assert (device["free_milli"], device["free_memory_bytes"]) == free
        (use,) = device["uses"]
        assert (use["milli"], use["memory_bytes"]) == (milli, memory_bytes)
        assert {name: use.get(name) for name in named if use.get(name)} == seen
    consumer.api.post(routes.CANCEL_TASK.url(task_id=task_id), {})
    assert the_device(owner.api, owner.node_id)["uses"] == []


def test_filters_and_pages(server: ServerProcess, owner: Person) -> None:
    model = the_device(owner.api, owner.node_id)["description"]["model"]
    everything = [each["id"] for each in devices(owner.api)]
    assert everything == sorted(everything) and everything
    pages: list[str] = []
    cursor = ""
    while True:
        answer = owner.api.get(f"{routes.LIST_DEVICES.path}?limit=1{cursor}")
        pages += [each["id"] for each in answer["devices"]]
        if not answer["next_cursor"]:
            break
        cursor = f"&cursor={answer['next_cursor']}"
    assert pages == everything
    part = model[2:5].lower()
    for query, is_there in [
        ("?kind=gpu", True),
        ("?kind=cpu", False),
        (f"?model={part}", True),
        (f"?model=nothing|{part}*", True),
        ("?model=%25nothing", False),
        ("?model=_______________", False),  # not PostgreSQL's own wildcards
        ("?free_milli=1000", True),
    ]:
        assert bool(devices(owner.api, query.replace("|", "%7C"))) == is_there, query


def test_what_is_away_is_listed_but_not_as_free(server: ServerProcess) -> None:
    away = Person(server, "away")
    node = server.client(away.node_token())
    assert any(each["is_mine"] for each in devices(away.api, "?free_milli=1"))
    assert node.call("POST", routes.LEAVE.url(node_id=away.node_id), b"").status == 204
    assert not any(each["is_mine"] for each in devices(away.api))


@pytest.mark.parametrize(
    "query", ["?cursor=x", "?limit=0", "?limit=501", "?kind=tpu", "?free_milli=1001", "?model=%00"]
)
def test_a_bad_question_gets_a_sentence(server: ServerProcess, query: str) -> None:
    answer = server.client().call("GET", f"{routes.LIST_DEVICES.path}{query}")
    assert (answer.status, answer.json()["code"]) == (400, "invalid_input")
