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
    listed_devices: list[Any] = api.get(f"{routes.LIST_DEVICES.path}{query}")["devices"]
    return listed_devices


def the_device(api: Api, node_id: str) -> Any:
    (device,) = [device for device in devices(api) if device["node_id"] == node_id]
    return device


def test_only_the_tasks_and_the_nodes_owner_see_which_attempt_a_device_serves(
    server: ServerProcess, owner: Person, consumer: Person
) -> None:
    idle = the_device(consumer.api, owner.node_id)
    assert (idle["free_milli"], idle["uses"], idle["is_mine"]) == (1000, [], False)
    assert (idle["node_state"], idle["standing"]) == ("online", "bound")
    memory = idle["description"]["memory_bytes"]
    requirements = {"device_milli": 250, "device_memory_bytes": 2**20, "device_kind": "gpu"}
    task = {"spec": SCRIPT, "requirements": requirements}
    task_id = consumer.api.post(routes.SUBMIT_TASK.path, task)["id"]
    (attempt,) = await_true(lambda: consumer.api.task(task_id)["attempts"], "it is assigned")
    current_use = {"attempt_id": attempt["id"], "task_id": task_id}
    (assignment,) = attempt["devices"]
    assert (assignment["device_id"], assignment["model"]) == (
        idle["id"],
        idle["description"]["model"],
    )
    milli, memory_bytes = assignment["milli"], assignment["memory_bytes"]
    assert (milli, memory_bytes) == (250, 2**20)
    free = (1000 - milli, memory - memory_bytes)
    stranger = Person(server, "stranger")
    for api, visible_use in (
        (consumer.api, current_use),
        (owner.api, current_use),
        (stranger.api, {}),
        (server.client(), {}),  # an admin has no business with it either
    ):
        device = the_device(api, owner.node_id)
        assert (device["free_milli"], device["free_memory_bytes"]) == free
        (use,) = device["uses"]
        assert (use["milli"], use["memory_bytes"]) == (milli, memory_bytes)
        assert {name: use.get(name) for name in current_use if use.get(name)} == visible_use
    consumer.api.post(routes.CANCEL_TASK.url(task_id=task_id), {})
    assert the_device(owner.api, owner.node_id)["uses"] == []


def test_filters_and_pages(server: ServerProcess, owner: Person) -> None:
    offered = the_device(owner.api, owner.node_id)["description"]
    model, vendor, memory = offered["model"], offered["vendor"], offered["memory_bytes"]
    device_ids = [device["id"] for device in devices(owner.api)]
    assert device_ids == sorted(device_ids) and device_ids
    pages: list[str] = []
    cursor = ""
    while True:
        page = owner.api.get(f"{routes.LIST_DEVICES.path}?limit=1{cursor}")
        pages += [device["id"] for device in page["devices"]]
        if not page["next_cursor"]:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert pages == device_ids
    word = model.split()[0].lower()
    for query, is_there in [
        ("?kind=gpu", True),
        ("?kind=cpu", False),
        (f"?model={word}", True),
        (f"?model=nothing|{word[:2]}*", True),
        (f"?model={word[:2]}", False),  # compared as for a task
        (f"?model={model.replace(' ', '-').lower()}", True),
        ("?model=%25nothing", False),
        ("?model=_______________", False),  # not PostgreSQL's own wildcards
        ("?free_milli=1000", True),
        (f"?memory_bytes={memory}", True),
        (f"?memory_bytes={memory + 1}", False),
        ("?max_price_micro_per_hour=0", True),
        (f"?vendor={vendor[:3].lower()}", True),
        ("?vendor=%25%25%25", False),
        ("?label=region%3Dnowhere", False),
        ("?min_reliability=1", True),
    ]:
        assert bool(devices(owner.api, query.replace("|", "%7C"))) == is_there, query


def test_devices_of_an_absent_node_are_listed_but_not_as_free(server: ServerProcess) -> None:
    absent_owner = Person(server, "away")
    node = server.client(absent_owner.node_token())
    assert any(device["is_mine"] for device in devices(absent_owner.api, "?free_milli=1"))
    assert node.call("POST", routes.LEAVE.url(node_id=absent_owner.node_id), b"").status == 204
    assert not any(device["is_mine"] for device in devices(absent_owner.api))


def test_devices_show_reliability_labels_and_own_tasks_only(
    owner: Person, consumer: Person
) -> None:
    device = the_device(consumer.api, owner.node_id)
    assert (device["reliability"], device["labels"], device["own_tasks_only"]) == (1.0, [], False)


def test_the_pool_counts_nodes_devices_and_attempts(
    server: ServerProcess, owner: Person, consumer: Person
) -> None:
    before = consumer.api.get(routes.SHOW_POOL.path)
    assert before["nodes"] >= 1 and before["gpus"]["free"] >= 1
    assert before["cpus"] == {"free": 0, "busy": 0, "away": 0}
    task = {"spec": SCRIPT, "requirements": {"device_kind": "gpu"}}
    task_id = consumer.api.post(routes.SUBMIT_TASK.path, task)["id"]
    await_true(lambda: consumer.api.task(task_id)["attempts"], "it is assigned")
    after = consumer.api.get(routes.SHOW_POOL.path)
    assert after["gpus"]["busy"] == before["gpus"]["busy"] + 1
    assert after["running_attempts"] == before["running_attempts"] + 1
    unplaceable = {"spec": SCRIPT, "requirements": {"device_kind": "cpu"}}
    waiting_id = consumer.api.post(routes.SUBMIT_TASK.path, unplaceable)["id"]
    waiting = consumer.api.get(routes.SHOW_POOL.path)["waiting_tasks"]
    assert waiting == before["waiting_tasks"] + 1
    for cancelled_id in (task_id, waiting_id):
        consumer.api.post(routes.CANCEL_TASK.url(task_id=cancelled_id), {})
    pool_after = consumer.api.get(routes.SHOW_POOL.path)
    assert pool_after == before


@pytest.mark.parametrize(
    "query",
    [
        *("?cursor=x", "?limit=0", "?limit=501", "?kind=tpu", "?free_milli=1001", "?model=%00"),
        *("?vendor=%00", "?label=%00", "?memory_bytes=-1", "?min_reliability=2", "?vendor="),
        f"?max_price_micro_per_hour={2**63}",
    ],
)
def test_a_bad_question_gets_a_sentence(server: ServerProcess, query: str) -> None:
    response = server.client().call("GET", f"{routes.LIST_DEVICES.path}{query}")
    assert (response.status, response.json()["code"]) == (400, "invalid_input")
