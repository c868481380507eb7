"""Random nodes, tasks and accounts of every kind that the scheduler tells apart."""

from random import Random

from msgspec.structs import replace

from potluck.decide.types import AccountShare, FreeDevice, FreeNode, WaitingTask
from potluck.model.device import Availability, DeviceKind
from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.node import SandboxStrength
from potluck.model.task import GIB, ItemRange, Limits, Requirements
from potluck.model.terms import TaskKind

ACCOUNTS = [AccountId(f"account_{number}") for number in range(5)]
_WALLETS = ["0xa", "0xb", ""]
_MODELS = ["RTX 4090", "A100", "T4"]
_LABELS = ["eu", "fast"]
_LIMITS = [Limits(), Limits(run_seconds=600.0)]


class RandomParts:
    """In a plain pool idle nodes are alike and no owner sets terms."""

    def __init__(self, rng: Random) -> None:
        self._chance = rng
        self.is_plain = rng.random() < 0.5
        self._wanted = [self._requirements() for _ in range(12 if self.is_plain else 25)]
        self._profiles = [self._profile() for _ in range(3 if self.is_plain else 8)]

    def _rarely(self, part: float = 0.15) -> bool:
        return not self.is_plain and self._chance.random() < part

    def account(self, account_id: AccountId) -> AccountShare:
        rng = self._chance
        return AccountShare(
            account_id,
            available_micro=rng.choice([0, 300_000, 10**9, 10**12]),
            weight=rng.choice([1.0, 1.0, 2.0, 0.5]),
            most_running_milli=rng.choice([None, None, None, 4000, 20_000]),
        )

    def task(self, name: str, now: float, nodes: list[NodeId]) -> WaitingTask:
        rng = self._chance
        pending: tuple[ItemRange, ...] = ()
        gang = 1
        if rng.random() < 0.1:
            start = rng.randrange(100)
            pending = (ItemRange(start, start + rng.randint(1, 3000)),)
        elif self._rarely(0.05):
            gang = rng.randint(2, 3)
        failed = rng.sample(nodes, k=min(len(nodes), 2)) if self._rarely(0.1) else ()
        return WaitingTask(
            id=TaskId(name),
            account_id=rng.choice(ACCOUNTS),
            requirements=rng.choice(self._wanted),
            limits=rng.choice(_LIMITS),
            priority=rng.choice([0, 0, 0, 0, 1, 5]),
            failed_on=frozenset(failed),
            submitted_at=now - rng.choice([0.0, 0.0, 0.5, 30.0]),
            expected_seconds=rng.choice([None, 3.0, 40.0, 41.0, 700.0, 5000.0]),
            pending=pending,
            nodes=gang,
            kind=TaskKind.CONTAINER.value if self._rarely() else TaskKind.SCRIPT.value,
        )

    def _requirements(self) -> Requirements:
        rng = self._chance
        kind = rng.choice([DeviceKind.GPU] * 4 + [DeviceKind.CPU, None])
        milli = rng.choice([50, 220, 470, 500, 810, 1000]) if rng.random() < 0.4 else None
        count = 1 if milli is not None else rng.choice([1, 1, 1, 2, 4, 8])
        cores = rng.choice([1, 2, 4, 7])
        return Requirements(
            device_kind=kind,
            device_count=1 if kind is DeviceKind.CPU else count,
            device_milli=milli,
            device_memory_bytes=rng.choice([0, 4, 30]) * GIB if self._rarely(0.3) else 0,
            device_model=rng.choice(["RTX 4*", "A100|T4"]) if self._rarely(0.25) else None,
            max_price_micro_per_hour=rng.choice([0, 200_000]) if self._rarely() else None,
            labels=(rng.choice(_LABELS),) if self._rarely() else (),
            min_reliability=rng.choice([0.5, 0.9]) if self._rarely(0.25) else None,
            owners=(rng.choice(_WALLETS[:2]),) if self._rarely(0.1) else (),
            shares_device=rng.random() < 0.3,
            cores=cores,
            memory_bytes=cores * rng.choice([1, 2, 4]) * GIB,
            disk_bytes=rng.choice([1, 1, 30]) * GIB,
        )

    def node(self, name: str) -> FreeNode:
        rng = self._chance
        node, devices = rng.choice(self._profiles)
        renamed_devices = tuple(
            replace(device, id=DeviceId(f"{name}/{index}")) for index, device in enumerate(devices)
        )
        reliability = rng.choice([1.0, 0.95, 0.4]) if self._rarely(0.3) else 1.0
        return replace(node, id=NodeId(name), devices=renamed_devices, reliability=reliability)

    def _profile(self) -> tuple[FreeNode, list[FreeDevice]]:
        rng = self._chance
        gpus = rng.choice([1, 2, 4, 8, 8] if self.is_plain else [0, 1, 2, 3, 4, 8])
        cores = rng.choice([4, 8, 16, 32])
        memory_bytes, disk_bytes = cores * 4 * GIB, rng.choice([40, 500]) * GIB
        devices = [self._gpu() for _ in range(gpus)] if self._rarely(0.4) else [self._gpu()] * gpus
        devices.append(self._cpu())
        node = FreeNode(
            id=NodeId(""),
            account_id=rng.choice(ACCOUNTS),
            own_tasks_only=self._rarely(0.1),
            cores=cores,
            free_cores=cores,
            free_memory_bytes=memory_bytes,
            free_disk_bytes=disk_bytes,
            devices=(),
            memory_bytes=0 if self._rarely(0.1) else memory_bytes,
            disk_bytes=disk_bytes,
            labels=frozenset(_LABELS if self._rarely(0.4) else ()),
            is_doubted=self._rarely(),
            sandbox=SandboxStrength.NONE,
            wallet=rng.choice(_WALLETS),
            is_cordoned=self._rarely(0.05),
        )
        return node, devices

    def _gpu(self) -> FreeDevice:
        rng = self._chance
        memory_bytes = rng.choice([16, 24]) * GIB
        is_closed = self._rarely(0.08)
        return FreeDevice(
            id=DeviceId(""),
            kind=DeviceKind.GPU,
            model=rng.choice(_MODELS),
            memory_bytes=memory_bytes,
            price_micro_per_hour=rng.choice([0, 0, 100_000, 300_000]),
            free_milli=1000,
            free_memory_bytes=memory_bytes,
            is_partition=self._rarely(0.1),
            shares_accounts=rng.random() < 0.3,
            availability=Availability.PAUSED if self._rarely(0.05) else Availability.AVAILABLE,
            kinds=frozenset([TaskKind.SCRIPT.value]) if self._rarely(0.1) else frozenset(),
            least_milli=250 if self._rarely(0.1) else 1,
            allow=frozenset(ACCOUNTS[:2]) if is_closed else None,
            deny=frozenset(ACCOUNTS[2:3]) if self._rarely(0.1) else frozenset(),
        )

    def _cpu(self) -> FreeDevice:
        return FreeDevice(
            id=DeviceId(""),
            kind=DeviceKind.CPU,
            model="CPU",
            memory_bytes=8 * GIB,
            price_micro_per_hour=self._chance.choice([0, 20_000]),
            free_milli=1000,
            free_memory_bytes=8 * GIB,
        )
