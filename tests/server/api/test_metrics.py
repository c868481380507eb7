"""`/metrics`: who may read it, in which formats, and what is in it."""

import re

import pytest
import urllib3
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from potluck.model.account import Scope
from tests.processes import Api, ServerProcess, await_true, free_port
from tests.security.people import Person

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
# As Prometheus 2.42 asks.
PROMETHEUS = f"{OPENMETRICS},text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def samples(api: Api) -> list[Sample]:
    response = api.call("GET", "/metrics", Accept=PROMETHEUS)
    assert response.status == 200, response.data
    assert response.headers["Content-Type"].startswith(
        "application/openmetrics-text; version=1.0.0"
    )
    families = text_string_to_metric_families(response.data.decode())  # type: ignore[no-untyped-call]
    return [sample for family in families for sample in family.samples]


def value(api: Api, name: str, **labels: str) -> float | None:
    values = [s.value for s in samples(api) if s.name == name and s.labels == labels]
    return values[0] if values else None


@pytest.fixture(scope="module")
def local(server: ServerProcess) -> Api:
    """Somebody on the server's machine, without a credential."""
    return server.client("")


@pytest.mark.parametrize("accepted", [OPENMETRICS, "text/plain;version=0.0.4", "*/*"])
def test_the_content_type_has_one_charset(accepted: str, local: Api) -> None:
    response = local.call("GET", "/metrics", Accept=accepted)
    kind = response.headers["Content-Type"]
    assert kind.startswith(accepted.split(";")[0].replace("*/*", "text/plain"))
    assert kind.count("charset=utf-8") == 1, kind


def test_requests_are_counted_by_route_and_status(server: ServerProcess, local: Api) -> None:
    api = server.client()
    task_id = api.submit("print(1)", requirements={"memory_bytes": 2**50})
    for _ in range(3):
        api.get(f"/v1/tasks/{task_id}")
    api.get("/v1/tasks/task_01jd0000000000000000000000")
    assert api.call("GET", "/v1/nothing").status == 404
    task_route = "GET /v1/tasks/{task_id}"
    assert value(local, "potluck_http_requests_total", route=task_route, status="200") == 3
    assert value(local, "potluck_http_requests_total", route=task_route, status="404") == 1
    assert (value(local, "potluck_http_requests_total", route="other", status="404") or 0) >= 1
    assert value(local, "potluck_http_request_duration_seconds_count", route=task_route) == 4
    assert value(local, "potluck_http_requests_open") == 1, "this one"


def test_acknowledgements_are_measured_by_outcome(server: ServerProcess, local: Api) -> None:
    name, api = "potluck_task_acknowledgement_seconds_count", server.client()
    before = [value(local, name, outcome=outcome) or 0 for outcome in ("accepted", "refused")]
    api.submit("print(1)", requirements={"memory_bytes": 2**50})
    api.post("/v1/tasks", {"spec": {}})
    after = [value(local, name, outcome=outcome) or 0 for outcome in ("accepted", "refused")]
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 1]


def test_every_part_of_the_server_is_in_it(server: ServerProcess, local: Api) -> None:
    server.client().submit("print(1)", requirements={"memory_bytes": 2**50})
    await_true(lambda: value(local, "potluck_nodes", state="online") is not None, "leader's")
    await_true(lambda: value(local, "potluck_event_loop_lag_seconds_count"), "a timer was late")
    await_true(
        lambda: value(local, "potluck_tasks_queued_total", cause="submitted"), "tasks are counted"
    )
    values = {(sample.name, *sample.labels.values()): sample.value for sample in samples(local)}
    assert values["potluck_leading",] == 1
    assert values["potluck_database_statement_seconds_count", "tasks.insert"] >= 1
    assert values["potluck_database_statement_seconds_count", "transaction"] >= 1
    assert values["potluck_database_connections",] == 18
    assert values["potluck_part_working", "database"] == 1
    assert values["potluck_ledger_imbalance_credits",] == 0
    for name in (
        *("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"),
        *(
            "potluck_disk_free_bytes",
            "potluck_leader_term",
            "potluck_scheduler_round_seconds_count",
        ),
        "potluck_event_loop_lag_seconds_count",
    ):
        assert values[name,] > 0, name


def test_metrics_name_no_task_account_or_machine(server: ServerProcess, local: Api) -> None:
    person = Person(server, "has a machine and tasks")
    text = local.call("GET", "/metrics").data.decode()
    assert not re.search(r"(task|attempt|account|node|device|key|session)_01[0-9a-z]{10}", text)
    assert person.wallet.address.lower() not in text.lower()
    assert "print(" not in text


@pytest.mark.parametrize(
    "header",
    [
        {"X-Forwarded-For": "203.0.113.7"},
        {"X-Forwarded-Proto": "https"},
        {"X-Forwarded-Port": "443"},
        {"True-Client-IP": "203.0.113.7"},
        {"X-Real-IP": "203.0.113.7"},
        {"Forwarded": "for=203.0.113.7"},
        {"Via": "1.1 proxy"},
        {"Host": "potluck.example.org"},
    ],
    ids=lambda header: next(iter(header)),
)
def test_requests_through_a_proxy_or_another_name_need_a_key(
    server: ServerProcess, header: dict[str, str]
) -> None:
    """A proxy on this machine that the server was not told of; a page whose name leads here."""
    url = f"{server.url}/metrics"
    assert urllib3.request("GET", url).status == 200
    assert urllib3.request("GET", url, headers=header).status == 401


def test_a_server_behind_a_proxy_wants_a_key_from_loopback_too(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whoever connects from there is the proxy."""
    settings = {
        "POTLUCK_BEHIND_PROXY": "127.0.0.1/32",
        "POTLUCK_PUBLIC_URL": "https://potluck.example.org",
    }
    port = free_port()
    with ServerProcess(tmp_path_factory.mktemp("public"), port, **settings):
        assert urllib3.request("GET", f"http://127.0.0.1:{port}/metrics").status == 401


def test_a_key_needs_the_scope_and_its_account_the_role(server: ServerProcess) -> None:
    admin, other = server.client(), Person(server, "no admin").api
    for owner, scope, status in (
        (admin, Scope.METRICS_READ, 200),
        (admin, Scope.POOL_READ, 403),
        (other, Scope.METRICS_READ, 403),
    ):
        created = owner.post("/v1/me/keys", {"name": "prometheus", "scopes": [scope]})
        assert created["unusable_scopes"] == ([scope] if owner is other else [])
        reader = server.client(created["secret"])
        response = reader.call("GET", "/metrics", X_Forwarded_For="203.0.113.7")
        assert response.status == status, (scope, response.data)
    proxied = admin.call("GET", "/metrics", X_Forwarded_For="203.0.113.7")
    assert proxied.status == 200, "an admin's session"


def test_metrics_can_be_turned_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ServerProcess(tmp_path_factory.mktemp("off"), POTLUCK_METRICS="false") as server:
        response = server.client("").call("GET", "/metrics")
        assert response.status == 404 and "POTLUCK_METRICS" in response.json()["hint"]
