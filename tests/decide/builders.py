"""Values in domain words, with a default for all that a test does not care about."""

from datetime import UTC, datetime
from typing import Any

from potluck.decide.pool.feasibility import Refusal
from potluck.decide.types import FreeDevice, FreeNode, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.task import GIB, Limits, Requirements

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ALICE = AccountId("account_alice")
BOB = AccountId("account_bob")
# Whoever refuses for these may take the task once something has ended.
PASSING = {Refusal.DEVICE_BUSY, Refusal.DEVICE_SHARED, Refusal.NODE_BUSY, Refusal.CREDIT}


def task(name: str = "t1", **changes: Any) -> WaitingTask:
    requirements = {
        key: changes.pop(key) for key in list(changes) if key in Requirements.__struct_fields__
    }
    values: dict[str, Any] = {
        "account_id": ALICE,
        "requirements": Requirements(**requirements),
        "limits": Limits(run_seconds=changes.pop("run_seconds", 3600.0)),
        "priority": 0,
        **changes,
    }
    return WaitingTask(id=TaskId(name), **values)


def gpu(name: str = "g1", **changes: Any) -> FreeDevice:
    values: dict[str, Any] = {
        "kind": DeviceKind.GPU,
        "model": "NVIDIA GeForce RTX 4090",
        "memory_bytes": 24 * GIB,
        "price_micro_per_hour": 0,
        "free_milli": 1000,
        **changes,
    }
    return FreeDevice(id=DeviceId(name), **values)


def cpu(name: str = "c1", **changes: Any) -> FreeDevice:
    return gpu(name, kind=DeviceKind.CPU, model="Some CPU", memory_bytes=8 * GIB, **changes)


def node(name: str = "n1", *devices: FreeDevice, **changes: Any) -> FreeNode:
    values: dict[str, Any] = {
        "account_id": BOB,
        "own_tasks_only": False,
        "cores": 8,
        "free_cores": 8,
        "free_memory_bytes": 16 * GIB,
        "free_disk_bytes": 16 * GIB,
        "devices": devices or (gpu(f"{name}-g1"),),
        **changes,
    }
    return FreeNode(id=NodeId(name), **values)
