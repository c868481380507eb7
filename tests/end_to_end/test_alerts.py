"""Each alert fires when its fault really happens, once, and resolves when the fault is gone."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from potluck.model.alert import AlertName
from tests.alert_receiver import receiving
from tests.databases import Databases
from tests.end_to_end.alert_faults import FAULTS, QUICK, WatchedPool, cause
from tests.processes import WholeServerProcess, await_true, frozen, postgres_processes


@pytest.fixture(scope="module")
def pool(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedPool]:
    with databases.fresh() as url, ExitStack() as stack:
        yield WatchedPool(tmp_path_factory.mktemp("alerts"), url, stack)


def test_every_alert_has_a_fault() -> None:
    assert {*FAULTS} == {*AlertName}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_and_its_end_are_reported_once(pool: WatchedPool, name: str) -> None:
    fired = cause(pool, name)
    assert len(pool.receiver.about(name)) == len(pool.receiver.about(name, kind="success")) == 1
    assert fired.message.title.startswith("Potluck: ")
    assert fired.resolved.title.startswith("Potluck: Resolved: ")
    page, _, anchor = fired.message.body.rpartition(": ")[2].partition("#")
    with urlopen(page) as response:
        assert f'<h2 id="{anchor}">{name}</h2>' in response.read().decode()
    alerts = [alert for alert in pool.client.get("/v1/alerts")["alerts"] if alert["name"] == name]
    # On a busy machine another one may be pending, which nobody is told of.
    assert {alert["state"] for alert in alerts if alert["fired_at"]} == {"resolved"}


def test_an_admin_tests_silences_and_lists(pool: WatchedPool) -> None:
    pool.receiver.received.clear()
    (result,) = pool.client.post("/v1/alerts/test", None)["results"]
    assert result["has_arrived"] and result["destination"] == "1 (json)"
    assert [message.title for message in pool.receiver.received] == ["Potluck: test"]
    pool.receiver.status = 500
    (result,) = pool.client.post("/v1/alerts/test", None)["results"]
    pool.receiver.status = 200
    assert result["problem"] == "it did not accept the message"
    silence_request = {"name": "DeviceHot", "seconds": 60, "comment": "a new fan is on its way"}
    silence = pool.client.post("/v1/alerts/silences", silence_request)
    with FAULTS["DeviceHot"].cause(pool):
        await_true(lambda: states(pool, "DeviceHot")[:1] == ["firing"], "it is listed")
    await_true(lambda: states(pool, "DeviceHot")[:1] == ["resolved"], "it has cooled down")
    assert pool.receiver.about("DeviceHot") == []
    assert pool.client.get("/v1/alerts")["silences"] == [silence]
    path = f"/v1/alerts/silences/{silence['id']}"
    assert [pool.client.call("DELETE", path).status for _ in range(2)] == [204, 404]
    kinds = [entry["kind"] for entry in pool.client.get("/v1/audit?limit=2")["entries"]]
    assert kinds == ["alert_unsilenced", "alert_silenced"]


def states(pool: WatchedPool, name: str) -> list[str]:
    """Of alerts, newest first."""
    alerts = pool.client.get("/v1/alerts")["alerts"]
    return [alert["state"] for alert in alerts if alert["name"] == name]


@pytest.mark.long
def test_without_its_database_an_instance_tells_by_itself_and_once(tmp_path: Path) -> None:
    """Stopped and not killed. When it is back, its end is told too."""
    with (
        receiving() as receiver,
        WholeServerProcess(tmp_path, 0, POTLUCK_ALERT_URLS=receiver.url, **QUICK) as server,
    ):
        await_true(lambda: server.client("").get("/readyz")["leader"], "it leads")
        with frozen(*postgres_processes(tmp_path)):
            message = receiver.wait_for("NoLeader")
        assert "The database does not answer." in message.body
        receiver.wait_for("NoLeader", kind="success")
        assert len(receiver.about("NoLeader")) == 1
