"""What owners type about a machine that is not this one: all of it through the server."""

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.device import Availability, DeviceDescription, DeviceKind, Health
from potluck.model.error import NotFound
from potluck.model.ids import DeviceId, NodeId
from potluck.model.node import NodeState, SandboxReport
from potluck.model.terms import DeviceTerms, TermsChange
from potluck.wire.consumer import DeviceView, NodeList, NodeView
from potluck.wire.device_status import DeviceSample
from potluck.wire.own_machines import (
    AwayDevice,
    Earned,
    Earnings,
    NodeExplanation,
    NodeReason,
    UsedInAll,
)
from potluck.wire.owner_request import Wish
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, refuses, says

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
ATTIC, SHED = NodeId("node_01m7gm2q85jfaf9jspxrgzrx1c"), NodeId("node_01m7gm2q85jfaf9jspxrgzaaaa")


def a_card(number: int, **changes: Any) -> DeviceView:
    terms = DeviceTerms(price_micro_per_hour=number * 100_000, hours="sat")
    description = DeviceDescription(
        DeviceKind.GPU, f"GPU-{number}", "NVIDIA", f"RTX 409{number}", 24 * 2**30, terms=terms
    )
    view = DeviceView(DeviceId(f"device_{number}"), description, 1000)
    return replace(view, **changes)


def a_node(node_id: NodeId = ATTIC, name: str = "attic", **changes: Any) -> NodeView:
    sample = DeviceSample(NOW, Health.MEMORY_ERRORS, 12.0, 55.0, 2**30, 80.0)
    node = NodeView(
        id=node_id,
        name=name,
        state=NodeState.ONLINE,
        platform="Linux",
        potluck_version="0.1.0",
        cores=16,
        memory_bytes=64 * 2**30,
        disk_bytes=2**40,
        sandbox=SandboxReport("bwrap", "watchdog", "watchdog"),
        devices=[
            a_card(1, sample=sample, free_milli=250),
            a_card(2, availability=Availability.PAUSED, why="Its owner has paused it."),
        ],
        is_mine=True,
        heartbeat_at=NOW,
        wishes=[Wish(1, TermsChange(is_paused=True))],
    )
    return replace(node, **changes)


@pytest.fixture
def pool(server: FakeServer) -> FakeServer:
    """With two machines of mine, and one of somebody else's."""
    foreign = a_node(NodeId("node_1"), "attic", is_mine=False)
    server.plays("/v1/nodes", says(NodeList([foreign, a_node(), a_node(SHED, "shed")])))
    for node_id in (ATTIC, SHED):
        server.plays(f"/v1/nodes/{node_id}", says(a_node(node_id)))
        server.plays(f"/v1/nodes/{node_id}/terms", says(a_node(node_id), 202))
        server.plays(f"/v1/nodes/{node_id}/orders", says(a_node(node_id), 202))
    return server


def told(user: CommandLine, *arguments: str) -> str:
    result = user.run("provider", *arguments)
    assert result.status == 0, result.stderr
    return result.stdout.decode()


def sent(server: FakeServer) -> tuple[str, str, Any]:
    request = server.requests[-1]
    return request.method, request.path, msgspec.json.decode(request.body)


def test_status(user: CommandLine, pool: FakeServer) -> None:
    lines = told(user, "status", "--node", "ATTIC").splitlines()
    assert lines[0].startswith(f"attic at {pool.url} · online · last contact")
    for figure in (
        "RTX 4091",
        "memory errors",
        "0.75 of it",
        "12 %",
        "55 °C",
        "80 W",
        "1 of 24 GiB",
    ):
        assert figure in lines[3]
    assert "2: Its owner has paused it." in lines
    assert "Not fetched yet: 1 request from you." in lines[-1]
    (document,) = user.run("provider", "status", "--node", "attic", "--json").lines()
    assert document["id"] == ATTIC


def test_a_machine_goes_by_name_and_by_id(user: CommandLine, pool: FakeServer) -> None:
    for word in ("shed", SHED, SHED[-5:]):
        told(user, "pause", "--node", word)
        assert SHED in pool.requests[-1].path
    unknown = user.run("provider", "pause", "--node", "cellar")
    assert unknown.status == 66 and "attic (node_01m7" in unknown.stderr
    unnamed = user.run("provider", "pause", "--server", pool.url)
    assert unnamed.status == 64 and "You have 2 machines there" in unnamed.stderr
    pool.plays("/v1/nodes", says(NodeList([a_node(SHED, "shed")])))
    assert "Paused all devices" in told(user, "pause", "--server", pool.url), "the only one"
    pool.plays("/v1/nodes", says(NodeList([])))
    assert "potluck provide URL" in user.run("provider", "pause", "--node", "x").stderr


def test_changed_terms_are_sent_as_written(user: CommandLine, pool: FakeServer) -> None:
    output = told(user, "set", "price=0.5", "hours=", "--node", "attic", "--device", "4092")
    assert "hours: back to the default" in output
    assert "next heartbeat" in output
    change = {"devices": ["GPU-2"], "price_micro_per_hour": 500_000, "hours": None}
    assert sent(pool) == ("PATCH", f"/v1/nodes/{ATTIC}/terms", change)
    assert "In effect now." in told(user, "pause", "1", "--node", "attic")
    assert "next heartbeat" in told(user, "resume", "1", "--node", "attic")
    assert sent(pool)[2] == {"devices": ["GPU-1"], "is_paused": False}
    reclaimed = user.run("provider", "reclaim", "device_2", "--node", "attic")
    assert "running tasks will be stopped" in reclaimed.stdout.decode()
    assert "lowers this machine" in reclaimed.stderr
    assert sent(pool) == (
        *("POST", f"/v1/nodes/{ATTIC}/orders"),
        {"order": "reclaim", "devices": ["GPU-2"]},
    )
    assert "It will finish running tasks" in told(user, "drain", "--node", "attic")
    assert sent(pool)[2] == {"order": "drain"}


def test_set_without_arguments_shows_the_reported_values(
    user: CommandLine, pool: FakeServer
) -> None:
    (document,) = user.run("provider", "set", "--node", "attic", "--json").lines()
    values = {name: term["value"] for name, term in document["terms"].items()}
    assert (values["price"], values["hours"], values["cores"]) == ("differs", "sat", "16")
    assert values["ram"] == "64GiB"
    assert "bandwidth" not in values


def test_explain(user: CommandLine, pool: FakeServer) -> None:
    explanation = NodeExplanation(
        node_id=ATTIC,
        state=NodeState.ONLINE,
        sentence="It has room, and nothing that waits fits.",
        waiting=1204,
        reasons=[NodeReason("memory", 1200, "1,200 waiting tasks need 48 GB of device memory.")],
        changes=["Offer a device with 48 GB."],
        away=[AwayDevice(DeviceId("device_2"), "RTX 4092", Availability.PAUSED, "It is paused.")],
    )
    pool.plays(f"/v1/nodes/{ATTIC}/explain", says(explanation))
    output = told(user, "explain", "--node", "attic")
    assert output.startswith(
        "It has room, and nothing that waits fits.\n  RTX 4092: It is paused.\n"
    )
    assert "Of 1,204 waiting tasks:\n  1,200 waiting tasks need 48 GB" in output
    assert output.endswith("What would help:\n  Offer a device with 48 GB.\n")
    (as_json,) = user.run("provider", "explain", "--node", "attic", "--json").lines()
    assert as_json["scheduler"]["waiting"] == 1204
    pool.plays(f"/v1/nodes/{ATTIC}/explain", refuses(NotFound("There is no such node.")))
    assert user.run("provider", "explain", "--node", "attic").status == 66


def test_earnings(user: CommandLine, pool: FakeServer) -> None:
    rows = [
        Earned(
            date(2026, 1, 2), ATTIC, "attic", DeviceId("device_1"), 3, 5400.0, 1_500_000, 15_000
        ),
        Earned(date(2026, 1, 1), ATTIC, "attic", None, 1, 60.0, 20_000, 200),
    ]
    used = UsedInAll(cpu_seconds=7200, device_seconds=3600, energy_joules=7.2e6, input_bytes=2**30)
    pool.plays(
        "/v1/me/earnings", says(Earnings(NOW, NOW, 4, 5460.0, 1_520_000, 15_200, rows, used))
    )
    lines = told(user, "earnings", "--since", "2026-01-01T00:00Z").splitlines()
    assert pool.requests[0].path.startswith("/v1/me/earnings?since=2026-01-01T00")
    assert lines[1].split() == [
        "2026-01-02",
        "attic",
        "RTX",
        "4091",
        "3",
        "1",
        "h",
        "30",
        "min",
        "1.5",
        "0.015",
    ]
    assert "several" in lines[2]
    assert lines[3] == "1.52 credits earned, 0.0152 credits fee: 4 attempts, 1 h 31 min worked."
    assert lines[4] == (
        "Used: 2 h 0 min of CPU time, 1 h 0 min of device time, 2 kWh of energy, 1 GiB of files in."
    )
    assert user.run("provider", "earnings", "--json").lines()[0]["earned_micro"] == 1_520_000
    pool.plays("/v1/me/earnings", says(Earnings(NOW, NOW, 0, 0.0, 0, 0, [])))
    assert "No earnings" in user.run("provider", "earnings").stderr
    assert user.run("provider", "earnings", "--since", "soon").status == 64


def test_a_silent_machine_is_shown_as_silent(user: CommandLine, pool: FakeServer) -> None:
    silent = a_node(state=NodeState.SILENT, wishes=[])
    pool.plays(f"/v1/nodes/{ATTIC}", says(silent))
    assert "has had no contact with it for a while" in told(user, "status", "--node", "attic")
