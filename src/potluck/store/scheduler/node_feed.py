"""The nodes as the leader plans with them: devices, free capacity, and running attempts."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from potluck.decide.failure_record import is_doubted, node_reliability
from potluck.decide.reservations.duration_estimate import Durations
from potluck.decide.types import DeviceShare, FreeDevice, FreeNode, RunningAttempt
from potluck.model.device import WHOLE_DEVICE_MILLI, Availability, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.node import SandboxReport
from potluck.store.database import Connection
from potluck.store.scheduler.interning import Interner
from potluck.store.scheduler.scheduler_feed import FeedPosition
from potluck.store.sql_files import load
from potluck.wire import codec

_sql = load("feed")


class WalletLists(Struct, frozen=True):
    """Allowed and denied wallets of a device, in lower case; an empty allow list means everyone."""

    allow: frozenset[str]
    deny: frozenset[str]


class NodeSnapshot(Struct, frozen=True):
    id: NodeId
    node: FreeNode | None  # None when it gets no work
    attempts: tuple[RunningAttempt, ...]  # that hold their shares
    ahead: dict[AttemptId, int] = {}  # how many wait behind them, by the first of the line
    lists: dict[DeviceId, WalletLists] = {}  # of restricted devices


class _Terms(Struct, frozen=True):
    """The part of the owner's terms that matters for planning; validated when it was set."""

    fractions: int | None = None
    shares_accounts: bool = False
    kinds: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    own_network: tuple[str, ...] = ()
    network_task_bytes: int | None = None

    @property
    def names_wallets(self) -> bool:
        return bool(self.allow or self.deny)


class _OfferedDevice(Struct, frozen=True):
    id: DeviceId
    kind: DeviceKind
    model: str
    memory_bytes: int
    price_micro_per_hour: int
    free_milli: int
    free_memory_bytes: int
    availability: Availability
    vendor: str
    compute_capability: str | None
    is_partition: bool
    terms: _Terms


class _Attempt(Struct, frozen=True):
    id: AttemptId
    task_id: TaskId
    consumer_id: AccountId
    cores: int
    memory_bytes: int
    disk_bytes: int
    run_seconds_limit: float
    name: str
    requirements: msgspec.Raw
    expected_seconds: float | None
    items_done: int
    items_seconds: float
    items: int
    is_array: bool
    since: float
    shares: list[tuple[DeviceId, int, int]]
    kind: str
    price_micro_per_hour: int
    line: AttemptId | None
    has_share: bool


async def changed_nodes(connection: Connection, since: FeedPosition) -> list[NodeId]:
    rows = await connection.fetch(*_sql.changed_nodes(snapshot=since.snapshot))
    return [row["id"] for row in rows]


async def online_nodes(connection: Connection, behind: str, most: int) -> list[NodeId]:
    rows = await connection.fetch(*_sql.online_nodes(after_id=behind, limit=most))
    return [row["id"] for row in rows]


class NodeFeed:
    """Reads nodes with their devices and running attempts."""

    def __init__(self, interner: Interner, durations: Durations) -> None:
        self._interner = interner
        self._durations = durations

    async def of_ids(self, connection: Connection, ids: Sequence[NodeId]) -> list[NodeSnapshot]:
        return [self._snapshot(row) for row in await connection.fetch(*_sql.nodes(node_ids=ids))]

    def _snapshot(self, row: Any) -> NodeSnapshot:
        node_id = row["id"]
        attempts = codec.decode_stored(row["attempts"], list[_Attempt])
        ahead = Counter(attempt.line for attempt in attempts if not attempt.has_share)
        attempts = [attempt for attempt in attempts if attempt.has_share]
        running = [self._running(node_id, attempt) for attempt in attempts]
        uses: dict[DeviceId, list[tuple[AccountId, bool]]] = {}
        for attempt in attempts:
            is_sharer = self._interner.requirements(bytes(attempt.requirements)).shares_device
            for device_id, *_ in attempt.shares:
                uses.setdefault(device_id, []).append((attempt.consumer_id, is_sharer))
        devices = codec.decode_stored(row["devices"], list[_OfferedDevice])
        free = [_device(device, uses.get(device.id, [])) for device in devices]
        lists = {
            attempt.id: _lists(attempt.terms) for attempt in devices if attempt.terms.names_wallets
        }
        node = None if row["account_id"] is None else self._node(row, free)
        waiting = {line: count for line, count in ahead.items() if line is not None}
        return NodeSnapshot(node_id, node, tuple(running), waiting, lists)

    def _node(self, row: Any, devices: list[FreeDevice]) -> FreeNode:
        ends = row["finished_attempts"], row["lost_attempts"], row["outlier_attempts"]
        sandbox = codec.decode_stored(row["sandbox"], SandboxReport)
        containers = row["containers"] and codec.decode_stored(row["containers"], SandboxReport)
        return FreeNode(
            id=row["id"],
            account_id=row["account_id"],
            own_tasks_only=row["own_tasks_only"],
            cores=row["cores"],
            free_cores=row["free_cores"],
            free_memory_bytes=row["free_memory_bytes"],
            free_disk_bytes=row["free_disk_bytes"],
            devices=tuple(devices),
            memory_bytes=row["memory_bytes"],
            disk_bytes=row["disk_bytes"],
            labels=frozenset(codec.decode_stored(row["labels"], tuple[str, ...])),
            reliability=node_reliability(*ends),
            is_doubted=is_doubted(*ends),
            sandbox=sandbox.strength,
            kinds=frozenset(sandbox.kinds),
            takes_stdin=sandbox.takes_stdin,
            is_cordoned=row["is_cordoned"],
            containers=None if containers is None else containers.strength,
            own_images_only=containers is not None and not containers.is_safe_for_strangers,
            python=row["python_version"],
            wallet=row["wallet"].lower(),
            volumes_bytes=row["volumes_bytes"],
            held_volumes=frozenset(row["held_volumes"]),
            others_disk_in_memory=row["others_disk_in_memory"],
            gpu_share=row["gpu_share"],
            more_pythons=codec.decode_stored(row["more_pythons"], tuple[str, ...]),
        )

    def _running(self, node_id: NodeId, attempt: "_Attempt") -> RunningAttempt:
        return RunningAttempt(
            id=attempt.id,
            task_id=attempt.task_id,
            account_id=attempt.consumer_id,
            node_id=node_id,
            shares=tuple(DeviceShare(*share) for share in attempt.shares),
            cores=attempt.cores,
            memory_bytes=attempt.memory_bytes,
            disk_bytes=attempt.disk_bytes,
            expected_end=attempt.since + self._expected_seconds(attempt),
            requirements=None
            if attempt.is_array
            else self._interner.requirements(bytes(attempt.requirements)),
            kind=attempt.kind,
            price_micro_per_hour=attempt.price_micro_per_hour,
            line=attempt.line,
        )

    def _expected_seconds(self, attempt: "_Attempt") -> float:
        """From measured items, else as declared, else as learned; at most its limit."""
        limit = attempt.run_seconds_limit
        if attempt.items_done:
            item_seconds: float | None = attempt.items_seconds / attempt.items_done
        else:
            item_seconds = attempt.expected_seconds or self._durations.expected_seconds(
                attempt.consumer_id, attempt.name, of_items=attempt.is_array
            )
        return limit if item_seconds is None else min(limit, item_seconds * attempt.items)


def _lists(terms: _Terms) -> WalletLists:
    return WalletLists(
        frozenset(wallet.lower() for wallet in terms.allow),
        frozenset(wallet.lower() for wallet in terms.deny),
    )


def _device(device: "_OfferedDevice", uses: list[tuple[AccountId, bool]]) -> FreeDevice:
    accounts = {account_id for account_id, _ in uses}
    return FreeDevice(
        id=device.id,
        kind=device.kind,
        model=device.model,
        memory_bytes=device.memory_bytes,
        price_micro_per_hour=device.price_micro_per_hour,
        free_milli=device.free_milli,
        free_memory_bytes=device.free_memory_bytes,
        vendor=device.vendor,
        compute_capability=device.compute_capability,
        is_partition=device.is_partition,
        shares_accounts=device.terms.shares_accounts,
        serves=accounts.pop() if len(accounts) == 1 else None,
        serves_sharers=all(shares for _, shares in uses),
        availability=device.availability,
        kinds=frozenset(device.terms.kinds),
        least_milli=WHOLE_DEVICE_MILLI // (device.terms.fractions or WHOLE_DEVICE_MILLI),
        network=device.terms.network,
        own_network=device.terms.own_network,
        network_task_bytes=device.terms.network_task_bytes,
    )
