"""Models of queries/attempts.sql."""

from datetime import timedelta
from itertools import accumulate

from potluck.simulate.store import spans
from potluck.simulate.store.capacity import key_is_good, reserve, take_device
from potluck.simulate.store.data import Data
from potluck.simulate.store.leases import look
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load
from potluck.wire import codec

_sql = load("attempts")
UNCOUNTED = ("withdrawn", "node_left", "reclaimed", "declined", "silence")


@models(_sql.fetch)
def fetch(
    data: Data,
    node_id: str,
    account_id: str,
    held: list[str],
    lasting: timedelta,
    node_key_id: str | None,
    most: int,
    most_bytes: int,
) -> list[Row]:
    (known,) = look(data, node_id, account_id, held)
    if not _may_fetch(data, node_id, account_id, node_key_id):
        return [{**known, "id": None}]
    granted = [
        attempt
        for attempt in sorted(data.attempts.of("live_of_node", node_id), key=_id)
        if attempt["id"] not in held and _may_be_given(data, attempt)
    ][:most]
    sizes = [_size(_made_of(data, attempt["task_id"])) for attempt in granted]
    before = list(accumulate(sizes, initial=0))
    granted = [attempt for place, attempt in enumerate(granted) if before[place] < most_bytes]
    for attempt in granted:
        if attempt["fetched_at"] is None:
            changes = {"fetched_at": data.now, "lease_expires_at": data.now + lasting}
            data.attempts.update(attempt, changes)
    given = [
        {**_granted(data, attempt), **_made_of(data, attempt["task_id"])} for attempt in granted
    ]
    return [{**known, **row} for row in given or [{"id": None}]]


def _may_fetch(data: Data, node_id: str, account_id: str, node_key_id: str | None) -> bool:
    node, account = data.nodes.get(node_id), data.accounts.get(account_id)
    if node is None or account is None or node["state"] == "left":
        return False
    if (node["account_id"], node["node_key_id"]) != (account_id, node_key_id):
        return False
    return account["suspended_at"] is None and key_is_good(data, node_key_id)


def _may_be_given(data: Data, attempt: Row) -> bool:
    return attempt["fetched_at"] is not None or _is_open(data, attempt)


def _is_open(data: Data, attempt: Row) -> bool:
    """Whether all its devices take new work."""
    shares = data.attempt_devices.of("attempt", attempt["id"])
    devices = (data.devices.get(share["device_id"]) for share in shares)
    return all(row is None or row["availability"] == "available" for row in devices)


def _granted(data: Data, attempt: Row) -> Row:
    columns = ("id", "task_id", "consumer_id", "is_reclaimable")
    named = {column: attempt[column] for column in columns}
    consumer = data.accounts.get(attempt["consumer_id"])
    assert consumer is not None, "an attempt has a consumer"
    remaining = spans.shown(attempt["remaining"])
    devices = _devices(data, attempt["id"])
    return {**named, "wallet": consumer["address"], "remaining": remaining, "devices": devices}


def _made_of(data: Data, task_id: str) -> Row:
    task = data.tasks.get(task_id)
    assert task is not None, "an attempt has a task"
    columns = ("sealed_spec", "sealed_secrets", "requirements", "limits")
    made = {column: task[column] for column in columns}
    # No simulated task keeps anything to go on from.
    return {**made, "items_total": task["items"], "checkpoint": None}


def _size(made: Row) -> int:
    return len(made["sealed_spec"]) + len(made["sealed_secrets"] or b"")


def _devices(data: Data, attempt_id: str) -> bytes:
    found = []
    for share in data.attempt_devices.of("attempt", attempt_id):
        device = data.devices.get(share["device_id"])
        assert device is not None, "a share is of a device"
        taken = {column: share[column] for column in ("device_id", "milli", "memory_bytes")}
        found.append((device["position"], {"uuid": device["uuid"], **taken}))
    return codec.encode_json([named for _, named in sorted(found, key=lambda pair: pair[0])])


@models(_sql.live_of_node)
def live_of_node(data: Data, node_id: str, account_id: str) -> list[Row]:
    node = data.nodes.get(node_id)
    if node is None or node["account_id"] != account_id:
        return []
    return [{"id": attempt["id"]} for attempt in data.attempts.of("live_of_node", node_id)]


@models(_sql.unfetched)
def unfetched(data: Data, node_id: str) -> list[Row]:
    return [
        {"id": attempt["id"]}
        for attempt in sorted(data.attempts.of("live_of_node", node_id), key=_id)
        if attempt["fetched_at"] is None and not _is_open(data, attempt)
    ]


@models(_sql.lock_task_of)
def lock_task_of(data: Data, attempt_id: str) -> list[Row]:
    attempt = data.attempts.get(attempt_id)
    return [] if attempt is None else [{"id": attempt["task_id"]}]


@models(_sql.live_of_task)
def live_of_task(data: Data, task_id: str) -> list[Row]:
    return [{"id": attempt["id"]} for attempt in data.attempts.of("live_of_task", task_id)]


@models(_sql.lock_for_end)
def lock_for_end(data: Data, attempt_ids: list[str]) -> list[Row]:
    found = (data.attempts.get(attempt_id) for attempt_id in sorted(set(attempt_ids)))
    return [_ending(data, attempt) for attempt in found if attempt is not None]


_OF_TASK = (
    "kind",
    *("failures", "losses", "max_attempts", "items"),
    *("items_succeeded", "items_failed", "allow_failures"),
)


def _ending(data: Data, attempt: Row) -> Row:
    task = data.tasks.get(attempt["task_id"])
    assert task is not None, "an attempt has a task"
    item = spans.first(attempt["remaining"])
    every = data.attempts.of("task", attempt["task_id"])
    lost = [
        row
        for row in every
        if row["state"] == "lost"
        and row["reason"] not in UNCOUNTED
        and spans.first(row["remaining"]) == item
    ]
    is_range = attempt["items"] is not None
    since = attempt["fetched_at"] or attempt["assigned_at"]
    live = [row for row in every if row["finished_at"] is None]
    return {
        **attempt,
        "is_range": is_range,
        "remaining": spans.shown(attempt["remaining"]),
        "task_state": task["state"],
        **{column: task[column] for column in _OF_TASK},
        "has_pending": bool(task["pending"]),
        "has_others": any(row["id"] != attempt["id"] for row in live),
        "other_nodes_lost": len({row["node_id"] for row in lost} - {attempt["node_id"]}),
        "declines": sum(row["reason"] == "declined" for row in every if row["state"] == "lost"),
        "item_losses": len(lost) if is_range and item is not None else 0,
        "pending_pieces": len(task["pending"]),
        "most_seconds": (data.now - since).total_seconds() - attempt["items_seconds"],
        "taken_at": data.now,
        "now": data.now,
        "is_expired": attempt["lease_expires_at"] <= data.now,
        "was_fetched": attempt["fetched_at"] is not None,
        "is_available": _is_open(data, attempt),
    }


def give_back(data: Data, attempt: Row, finished: int, lost: int) -> None:
    counted = {"finished_attempts": finished, "lost_attempts": lost}
    reserve(data, attempt["node_id"], attempt, -1, **counted)
    for share in data.attempt_devices.of("attempt", attempt["id"]):
        take_device(data, share, -1)


def _id(row: Row) -> str:
    return str(row["id"])
