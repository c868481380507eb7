"""A pool that a fake server plays: three machines, a few cards, and tasks in every state."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from potluck.model.account import Credential, Role, Scope
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Standing
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState
from potluck.model.task import EndReason, TaskState, WaitingReason
from potluck.model.terms import DeviceTerms
from potluck.wire.consumer import (
    AttemptDevice,
    AttemptView,
    DeviceCounts,
    DevicePage,
    DeviceUse,
    ItemCounts,
    PoolDevice,
    PoolView,
    TaskPage,
    TaskView,
)
from potluck.wire.device_status import DeviceSample
from potluck.wire.identity import Me
from tests.consumer.fake_server import FakeServer, a_task, says

GIB = 2**30
IDS = [
    TaskId(f"task_01m7gm2{end}")
    for end in (
        "q85jfaf9jspxrgzrx1c",
        "ab2egsw01knwzd6emam",
        "7j5qac5rmfgwtcrx3k9",
        "5d2xe2jv4x2y8q6r0c1",
        "m40vk9sd3h7q2w8zt5n",
    )
]
OPEN = "/v1/tasks?limit=200&state=queued&state=assigned&state=running"
OVER = "/v1/tasks?limit=50&state=succeeded&state=failed&state=cancelled&state=expired"
WALLET = "0x3FCf4914fC89B984Ca671C48D27b2814B59E3CA0"


def ago(**time: float) -> datetime:
    return datetime.now(UTC) - timedelta(**time)


def me() -> Me:
    roles, scopes = [Role.CONSUMER, Role.PROVIDER], list(Scope)
    return Me(
        AccountId("account_1"), WALLET, roles, Credential.SESSION, scopes, 12_500_000, 740_000
    )


def a_card(model: str, memory: int, price: int) -> DeviceDescription:
    terms = DeviceTerms(price_micro_per_hour=price)
    return DeviceDescription(
        DeviceKind.GPU, f"GPU-{model}", "NVIDIA", f"NVIDIA {model}", memory * GIB, terms=terms
    )


def a_device(number: int, node: str, card: DeviceDescription, **changes: Any) -> PoolDevice:
    device = PoolDevice(
        *(DeviceId(f"device_{number:026}"), NodeId(f"node_{node}"), node, NodeState.ONLINE, card),
        *(Standing.BOUND, 1000, card.memory_bytes, False),
        reliability=0.99,
        labels=["region=eu"],
        sample=a_sample(3, 0.4, 41, 23),
    )
    return replace(device, **changes)


def a_sample(percent: float, used: float, heat: float, watts: float) -> DeviceSample:
    values = (percent, heat, int(used * GIB), watts)
    return DeviceSample(
        datetime.now(UTC),
        utilisation_percent=values[0],
        temperature_celsius=values[1],
        memory_used_bytes=values[2],
        power_watts=values[3],
    )


def an_attempt(node: str, model: str, **changes: Any) -> AttemptView:
    values = {"state": AttemptState.RUNNING, "assigned_at": ago(minutes=5)}
    return AttemptView(
        id=AttemptId("attempt_1"),
        number=1,
        node_id=NodeId(f"node_{node}"),
        node_name=node,
        devices=[AttemptDevice(DeviceId("device_1"), model, 1000, 0)],
        **{**values, **changes},
    )


def open_tasks() -> list[TaskView]:
    busy = "12 nodes have their devices in use."
    return [
        a_task(
            id=IDS[0],
            name="日本語のタスク.py",
            created_at=ago(minutes=1),
            waiting=WaitingReason("device_busy", busy),
        ),
        a_task(
            TaskState.RUNNING,
            id=IDS[1],
            name="sweep.py",
            created_at=ago(minutes=4),
            started_at=ago(minutes=3, seconds=40),
            items=ItemCounts(200, 70, 121, 1),
            attempts=[an_attempt("garage", "RTX 4090")],
            charge_micro=31_000,
        ),
        a_task(
            TaskState.RUNNING,
            id=IDS[2],
            name="train.py",
            created_at=ago(hours=2),
            started_at=ago(hours=1, minutes=52),
            attempts=[an_attempt("attic", "RTX 4090")],
        ),
    ]


def ended_tasks() -> list[TaskView]:
    times = {"created_at": ago(hours=3), "started_at": ago(hours=3), "finished_at": ago(hours=2)}
    return [
        a_task(
            TaskState.SUCCEEDED,
            id=IDS[3],
            name="render.py",
            **times,
            charge_micro=412_500,
            attempts=[an_attempt("shed", "L4", state=AttemptState.SUCCEEDED)],
        ),
        a_task(
            TaskState.FAILED,
            id=IDS[4],
            name="greedy.py",
            **times,
            reason=EndReason.MEMORY_LIMIT,
            detail="it used more than its 24 GiB of memory",
            charge_micro=1_250,
        ),
    ]


def devices() -> list[PoolDevice]:
    big, small = a_card("GeForce RTX 4090", 24, 400_000), a_card("L4", 24, 150_000)
    hot = a_sample(97, 21.4, 78, 402)
    use = [DeviceUse(1000, 24 * GIB)]
    return [
        a_device(1, "attic", big, is_mine=True, free_milli=0, uses=use, sample=hot),
        a_device(2, "garage", big, free_milli=0, uses=use, sample=a_sample(64, 9.8, 86, 288)),
        a_device(3, "garage", big),
        a_device(4, "shed", small, sample=a_sample(0, 0.3, 35, 16)),
        a_device(
            5, "shed", small, availability=Availability.OUTSIDE_HOURS, why="It opens at 18:00."
        ),
    ]


def pool() -> PoolView:
    return PoolView(3, 0, DeviceCounts(2, 2, 1), DeviceCounts(), 14, 2, 10_000)


def plays_a_pool(server: FakeServer) -> list[TaskView]:
    tasks = open_tasks()
    server.plays(OPEN, says(TaskPage(tasks)))
    server.plays(OVER, says(TaskPage(ended_tasks())))
    server.plays("/v1/tasks", says(TaskPage(tasks + ended_tasks())))
    server.plays("/v1/devices", says(DevicePage(devices())))
    server.plays("/v1/pool", says(pool()))
    server.plays("/v1/me", says(me()))
    return tasks
