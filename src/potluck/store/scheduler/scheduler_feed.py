"""What the leader keeps in memory, as PostgreSQL has it: all of it in slices, or what has changed.

A position is a snapshot of the database. What it did not see is what has changed since, in whatever
order that became visible; so nothing is missed, and what is read twice does no harm.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from potluck.decide.reservations.duration_estimate import Durations
from potluck.decide.types import (
    AccountShare,
    DeviceShare,
    FreeDevice,
    FreeNode,
    RunningAttempt,
    WaitingTask,
)
from potluck.model.device import WHOLE_DEVICE_MILLI, Availability, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.node import SandboxReport, SandboxStrength
from potluck.model.task import ItemRange
from potluck.store.database import Connection
from potluck.store.scheduler.interning import Shapes
from potluck.store.sql_files import load
from potluck.wire import codec

_sql = load("feed")


class FeedPosition(Struct, frozen=True):
    """Up to where the database has been read, and its clock at that moment."""

    snapshot: str
    now: float


class News(Struct, frozen=True):
    """What a position did not see."""

    position: FeedPosition  # that has seen it
    tasks: "list[TaskNow]"  # the first page of them
    behind: "Page | None"  # where the next page begins, if there is one
    node_ids: list[NodeId]
    account_ids: list[AccountId]
    has_decided: bool  # whether a task that others wait for has ended


class TaskNow(Struct, frozen=True, gc=False):
    """A task as it is: in line, in line later, or in no line at all."""

    id: TaskId
    task: WaitingTask | None  # None when no attempt can be made of it now, whatever is free
    ready_at: float | None  # not before


class Page(NamedTuple):
    """The last task before it."""

    changed_by: str
    id: str


class WalletLists(Struct, frozen=True):
    """Whose tasks an owner takes on a device, in small letters; nobody allowed is everybody."""

    allow: frozenset[str]
    deny: frozenset[str]


class NodeNow(Struct, frozen=True):
    id: NodeId
    node: FreeNode | None  # None when it gets no work
    attempts: tuple[RunningAttempt, ...]
    lists: dict[DeviceId, WalletLists] = {}  # of the devices that are not for everybody


class _Terms(Struct, frozen=True):
    """What is planned with of an owner's terms. What he may say was checked when he said it."""

    fractions: int | None = None
    shares_accounts: bool = False
    kinds: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @property
    def names_wallets(self) -> bool:
        return bool(self.allow or self.deny)


class _OfferedDevice(Struct, frozen=True):
    """A device that its node offers."""

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
    """A live attempt."""

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


class NodeSpeed(Struct, frozen=True):
    """How an array goes on a node."""

    task_id: TaskId
    node_id: NodeId
    item_seconds: float
    in_vain: int  # items that failed there, if none succeeded


class WaitingId(Struct, frozen=True, gc=False):
    id: TaskId
    is_ready: bool
    pending: tuple[ItemRange, ...]


async def position(connection: Connection) -> FeedPosition:
    row = await connection.fetchrow(*_sql.position())
    assert row is not None
    return FeedPosition(row["position"], row["now"])


class TaskFeed:
    """Reads tasks; remembers what they ask for and how long they take, so that equal is one."""

    def __init__(self, shapes: Shapes, durations: Durations) -> None:
        self._shapes = shapes
        self._durations = durations

    async def news(self, connection: Connection, since: FeedPosition, most: int) -> News:
        """All that has changed, and no more than so many tasks in full."""
        rows = await connection.fetch(*_sql.news(snapshot=since.snapshot, limit=most))
        first = rows[0]
        tasks = [] if first["id"] is None else rows
        return News(
            FeedPosition(first["position"], first["now"]),
            [self._now(row) for row in tasks],
            _behind(tasks, most),
            first["node_ids"],
            first["account_ids"],
            first["has_decided"],
        )

    async def changed(
        self, connection: Connection, since: FeedPosition, behind: Page, most: int
    ) -> tuple[list[TaskNow], Page | None]:
        """A further page, and where the next one begins; None after the last."""
        rows = await connection.fetch(
            *_sql.changed_tasks(snapshot=since.snapshot, last_task=behind, limit=most)
        )
        return [self._now(row) for row in rows], _behind(rows, most)

    async def of_ids(self, connection: Connection, ids: Sequence[TaskId]) -> list[TaskNow]:
        return [self._now(row) for row in await connection.fetch(*_sql.tasks(task_ids=ids))]

    async def heads(
        self, connection: Connection, accounts: Sequence[AccountId], most_each: int
    ) -> list[TaskNow]:
        rows = await connection.fetch(*_sql.queue_heads(account_ids=accounts, limit=most_each))
        return [self._now(row) for row in rows]

    async def waiting(self, connection: Connection, behind: str, most: int) -> list[TaskNow]:
        """A page of all that waits, in the order of the ids."""
        rows = await connection.fetch(*_sql.waiting_tasks(after_id=behind, limit=most))
        return [self._now(row) for row in rows]

    def expected_seconds(self, account_id: AccountId, name: str, *, of_items: bool) -> float | None:
        """How long those of that name took lately."""
        return self._durations.expected_seconds(account_id, name, of_items=of_items)

    def _now(self, row: Any) -> TaskNow:
        account_id, name = row["account_id"], row["name"]
        is_array = row["is_array"]
        if row["took_seconds"] is not None:
            self._durations.see(account_id, name, row["took_seconds"], of_items=is_array)
        if row["has_to_wait"] or row["is_overdue"] or not row["is_waiting"]:
            return TaskNow(row["id"], None, None)
        expected_seconds = row["expected_seconds"]
        if row["items_done"]:
            expected_seconds = row["items_seconds"] / row["items_done"]
        elif expected_seconds is None:
            expected_seconds = self._durations.expected_seconds(account_id, name, of_items=is_array)
        pending, failed_on = row["pending"], row["failed_on"]
        task = WaitingTask(
            row["id"],
            account_id,
            self._shapes.requirements(row["requirements"]),
            self._shapes.limits(row["limits"]),
            row["priority"],
            frozenset(failed_on) if failed_on else _NOWHERE,
            row["submitted_at"],
            expected_seconds,
            _ranges(pending) if pending else (),
            sys.intern(row["kind"]),
        )
        return TaskNow(row["id"], task, row["ready_at"])


def _behind(rows: Sequence[Any], most: int) -> Page | None:
    return Page(rows[-1]["changed_by"], rows[-1]["id"]) if len(rows) == most else None


_NOWHERE: frozenset[NodeId] = frozenset()


async def waiting_accounts(connection: Connection) -> list[AccountId]:
    return [row["account_id"] for row in await connection.fetch(*_sql.waiting_accounts())]


async def waiting_ids(
    connection: Connection, behind: str, most: int, seen_by: FeedPosition
) -> list[WaitingId]:
    """A page of what waits and is as it was when the position was taken."""
    rows = await connection.fetch(*_sql.waiting_ids(after_id=behind, limit=most, position=seen_by))
    return [WaitingId(row["id"], row["is_ready"], _ranges(row["pending"])) for row in rows]


async def not_waiting(
    connection: Connection, ids: Sequence[TaskId], seen_by: FeedPosition
) -> list[TaskId]:
    """Those of these that are in no line, and were not when the position was taken."""
    rows = await connection.fetch(*_sql.not_waiting(task_ids=ids, snapshot=seen_by.snapshot))
    return [row["id"] for row in rows]


async def paces(connection: Connection, arrays: Sequence[TaskId]) -> list[NodeSpeed]:
    return [NodeSpeed(*row) for row in await connection.fetch(*_sql.paces(task_ids=arrays))]


async def changed_nodes(connection: Connection, since: FeedPosition) -> list[NodeId]:
    rows = await connection.fetch(*_sql.changed_nodes(snapshot=since.snapshot))
    return [row["id"] for row in rows]


async def online_nodes(connection: Connection, behind: str, most: int) -> list[NodeId]:
    rows = await connection.fetch(*_sql.online_nodes(after_id=behind, limit=most))
    return [row["id"] for row in rows]


class Nodes:
    """Reads nodes with their devices and what runs on them."""

    def __init__(self, shapes: Shapes, durations: Durations) -> None:
        self._shapes = shapes
        self._durations = durations

    async def of_ids(self, connection: Connection, ids: Sequence[NodeId]) -> list[NodeNow]:
        return [self._now(row) for row in await connection.fetch(*_sql.nodes(node_ids=ids))]

    def _now(self, row: Any) -> NodeNow:
        node_id = row["id"]
        attempts = codec.decode_json(row["attempts"], list[_Attempt])
        running = [self._running(node_id, each) for each in attempts]
        uses: dict[DeviceId, list[tuple[AccountId, bool]]] = {}
        for each in attempts:
            is_sharer = self._shapes.requirements(bytes(each.requirements)).shares_device
            for device_id, *_ in each.shares:
                uses.setdefault(device_id, []).append((each.consumer_id, is_sharer))
        devices = codec.decode_json(row["devices"], list[_OfferedDevice])
        free = [_device(each, uses.get(each.id, [])) for each in devices]
        lists = {each.id: _lists(each.terms) for each in devices if each.terms.names_wallets}
        node = None if row["account_id"] is None else self._node(row, free)
        return NodeNow(node_id, node, tuple(running), lists)

    def _node(self, row: Any, devices: list[FreeDevice]) -> FreeNode:
        finished, lost = row["finished_attempts"], row["lost_attempts"]
        sandbox = codec.decode_json(row["sandbox"], SandboxReport)
        containers = row["containers"]
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
            labels=frozenset(codec.decode_json(row["labels"], tuple[str, ...])),
            # A new node is trusted a little before it has shown anything.
            reliability=(finished + 2) / (finished + lost + 2),
            sandbox=sandbox.strength,
            kinds=frozenset(sandbox.kinds),
            containers=None if containers is None else _strength(containers),
            python=".".join(row["python_version"].split(".")[:2]),
            wallet=row["wallet"].lower(),
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
        )

    def _expected_seconds(self, attempt: "_Attempt") -> float:
        """By what its items took, else as declared, else as learned; it ends at its limit."""
        limit = attempt.run_seconds_limit
        if attempt.items_done:
            each: float | None = attempt.items_seconds / attempt.items_done
        else:
            each = attempt.expected_seconds or self._durations.expected_seconds(
                attempt.consumer_id, attempt.name, of_items=attempt.is_array
            )
        return limit if each is None else min(limit, each * attempt.items)


def _strength(report: bytes) -> SandboxStrength:
    return codec.decode_json(report, SandboxReport).strength


def _lists(terms: _Terms) -> WalletLists:
    return WalletLists(
        frozenset(each.lower() for each in terms.allow),
        frozenset(each.lower() for each in terms.deny),
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
    )


async def changed_accounts(connection: Connection, since: FeedPosition) -> list[AccountId]:
    rows = await connection.fetch(*_sql.changed_accounts(snapshot=since.snapshot))
    return [row["account_id"] for row in rows]


async def all_accounts(connection: Connection, behind: str, most: int) -> list[AccountId]:
    rows = await connection.fetch(*_sql.all_accounts(after_id=behind, limit=most))
    return [row["id"] for row in rows]


async def accounts(
    connection: Connection, ids: Sequence[AccountId], quota_running_devices: int | None
) -> list[AccountShare]:
    """What they may spend and use; the quota holds for who has none of their own."""
    return [
        AccountShare(
            id=row["id"],
            available_micro=row["available_micro"],
            weight=row["weight"],
            most_running_milli=_milli(row["max_running_devices"], quota_running_devices),
            wallet=row["address"].lower(),
        )
        for row in await connection.fetch(*_sql.accounts(account_ids=ids))
    ]


def _milli(own: int | None, usual: int | None) -> int | None:
    devices = usual if own is None else own
    return None if devices is None else devices * WHOLE_DEVICE_MILLI


def _ranges(pending: Iterable[Any]) -> tuple[ItemRange, ...]:
    return tuple(ItemRange(each.lower, each.upper) for each in pending)
