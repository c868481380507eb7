"""Models of queries/leases.sql: beats, the way back of what was lost, and grace."""

from datetime import datetime, timedelta
from typing import cast

from potluck.simulate.store import spans
from potluck.simulate.store.capacity import (
    can_hold,
    has_memory,
    has_room,
    is_open,
    is_there,
    key_is_good,
    may_stand_there,
    reserve,
    shares_device,
    take_device,
)
from potluck.simulate.store.data import NEVER, Data
from potluck.simulate.store.nodes import staying
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("leases")


@models(_sql.beat)
def beat(
    data: Data,
    node_id: str,
    account_id: str,
    node_key_id: str | None,
    held: list[str],
    lasting: timedelta,
    overrun: timedelta,
) -> list[Row]:
    node = staying(data, node_id, account_id, node_key_id)
    if node is None:
        return []
    for attempt_id in set(held):
        _renew(data, attempt_id, node_id, lasting, overrun)
    data.nodes.update(node, {"heartbeat_at": data.now})
    return [
        {
            "node_state": node["state"],
            "last_wish": node["last_wish"],
            "now": data.now,
            "live": [row["id"] for row in data.attempts.of("live_of_node", node_id)],
            "lost": _lost(data, node_id, held),
            "has_wishes": bool(data.wishes.of("node", node_id)),
            **_own(data, node_id),
        }
    ]


def _renew(
    data: Data, attempt_id: str, node_id: str, lasting: timedelta, overrun: timedelta
) -> None:
    attempt = data.attempts.get(attempt_id)
    if attempt is None or attempt["finished_at"] is not None or attempt["node_id"] != node_id:
        return
    limits = (_over_by(attempt), _next_outcome_by(attempt))
    until = min((by + overrun for by in limits if by is not None), default=data.now + lasting)
    expires_at = max(attempt["lease_expires_at"], min(until, data.now + lasting))
    data.attempts.update(attempt, {"lease_expires_at": expires_at})


def _over_by(attempt: Row) -> datetime | None:
    """When it must be over."""
    begun, seconds = attempt["started_at"], attempt["run_seconds_limit"]
    if begun is None:
        begun, seconds = attempt["fetched_at"], attempt["prepare_seconds_limit"]
    return None if begun is None else begun + timedelta(seconds=seconds)


def _next_outcome_by(attempt: Row) -> datetime | None:
    """Of a range: two items take no longer."""
    since = attempt["progressed_at"] or attempt["started_at"]
    if since is None or attempt["items"] is None:
        return None
    first, last = attempt["items"]
    seconds: float = attempt["run_seconds_limit"]
    return cast("datetime", since + timedelta(seconds=2 * seconds / (last - first)))


def _lost(data: Data, node_id: str, held: list[str]) -> list[str]:
    found = (data.attempts.get(attempt_id) for attempt_id in sorted(set(held)))
    return [
        row["id"]
        for row in found
        if row is not None and row["node_id"] == node_id and _ran_out(row)
    ]


def _ran_out(attempt: Row) -> bool:
    return bool(attempt["state"] == "lost" and attempt["reason"] == "lease_expired")


def _own(data: Data, node_id: str) -> Row:
    """What is known of the devices that it shows."""
    shown = [row for row in data.devices.of("node", node_id) if row["is_present"]]
    shown.sort(key=lambda row: str(row["id"]))
    return {
        "uuids": [row["uuid"] for row in shown],
        "availabilities": [row["availability"] for row in shown],
        "whys": [row["why"] for row in shown],
        "has_concerns": any(
            row["standing"] != "bound" or data.contests.get(row["uuid"]) is not None
            for row in shown
        ),
    }


@models(_sql.ask)
def ask(
    data: Data,
    node_id: str,
    account_id: str,
    node_key_id: str | None,
    held: list[str],
    moment: timedelta,
) -> list[Row]:
    node = staying(data, node_id, account_id, node_key_id)
    if node is None:
        return []
    (known,) = look(data, node_id, account_id, held)
    is_due = not node["is_polling"] or node["heartbeat_at"] <= data.now - moment
    if is_due and not known["lost"]:
        data.nodes.update(node, {"heartbeat_at": data.now, "is_polling": True})
    is_news = not node["is_polling"] and not known["lost"]
    return [{"state": node["state"], "is_news": is_news, **known}]


@models(_sql.look)
def look(data: Data, node_id: str, account_id: str, held: list[str]) -> list[Row]:
    node = data.nodes.get(node_id)
    is_own = node is not None and node["account_id"] == account_id
    live = data.attempts.of("live_of_node", node_id) if is_own else []
    return [
        {
            "has_wishes": bool(data.wishes.of("node", node_id)),
            "live": [row["id"] for row in live],
            "lost": _lost(data, node_id, held),
        }
    ]


@models(_sql.lock_for_adoption)
def lock_for_adoption(data: Data, attempt_id: str, node_id: str) -> list[Row]:
    attempt = data.attempts.get(attempt_id)
    if attempt is None or attempt["node_id"] != node_id or not _ran_out(attempt):
        return []
    shares = data.attempt_devices.of("attempt", attempt_id)
    return [{"id": device_id} for device_id in sorted(share["device_id"] for share in shares)]


@models(_sql.adopt)
def adopt(
    data: Data,
    attempt_id: str,
    node_id: str,
    lasting: timedelta,
    overrun: timedelta,
    is_over: bool,
) -> list[Row]:
    attempt = data.attempts.get(attempt_id)
    if attempt is None or attempt["node_id"] != node_id or not _ran_out(attempt):
        return []
    task = data.tasks.get(attempt["task_id"])
    assert task is not None, "an attempt has a task"
    by = _over_by(attempt)
    in_time = is_over or (by is not None and data.now < by + overrun)
    if not in_time or not _is_nobodys(data, task, attempt):
        return []
    shares = data.attempt_devices.of("attempt", attempt_id)
    if not _has_all(data, task, attempt, shares):
        return []
    for share in shares:
        take_device(data, share)
    reserve(data, node_id, attempt, lost_attempts=-1)
    taken = data.tasks.update(task, _taken(data, task, attempt))
    is_let_in = all(is_open(device) for device in _devices(data, shares))
    adopted = data.attempts.update(attempt, _adopted(data, attempt, lasting, is_let_in))
    return [
        {
            **{column: attempt[column] for column in ("task_id", "consumer_id", "hold_micro")},
            "task_state_before": task["state"],
            "task_state": taken["state"],
            "state": adopted["state"],
            "adoptions": adopted["adoptions"],
        }
    ]


def _is_nobodys(data: Data, task: Row, attempt: Row) -> bool:
    """Whether its work has been given to nobody else, and is still wanted."""
    if task["state"] not in ("queued", "assigned", "running"):
        return False
    if task["items"] is not None:
        return spans.contains(task["pending"], attempt["remaining"])
    newest = max(row["number"] for row in data.attempts.of("task", task["id"]))
    return bool(task["state"] == "queued" and attempt["number"] == newest)


def _has_all(data: Data, task: Row, attempt: Row, shares: list[Row]) -> bool:
    """Whether the node, its devices and the account have what it had."""
    node = data.nodes.get(attempt["node_id"])
    assert node is not None, "an attempt has a node"
    owner = data.accounts.get(node["account_id"])
    assert owner is not None, "a node has an owner"
    wanted = {of: attempt[of] for of in ("cores", "memory_bytes", "disk_bytes")}
    had_room = _had_room(data, attempt)
    return (
        node["state"] != "left"
        and owner["suspended_at"] is None
        and key_is_good(data, node["node_key_id"])
        and (had_room or has_room(node, **wanted))
        and can_hold(data, attempt["consumer_id"], attempt["hold_micro"])
        and all(_is_back(data, task, attempt, share, had_room) for share in shares)
    )


def _had_room(data: Data, attempt: Row) -> bool:
    """Whether it was given its place beside all that is there."""
    there = data.attempts.of("live_of_node", attempt["node_id"])
    return all(row["assigned_at"] <= attempt["assigned_at"] for row in there)


def _is_back(data: Data, task: Row, attempt: Row, share: Row, had_room: bool) -> bool:
    """Whether it can have its part of a device again."""
    device = data.devices.get(share["device_id"])
    if device is None or not is_there(device, share["milli"]) or device["availability"] == "sick":
        return False
    return (had_room or has_memory(device, share["memory_bytes"])) and may_stand_there(
        data,
        device,
        attempt["consumer_id"],
        is_sharer=shares_device(task),
        is_open=attempt["may_stand_beside"] or is_open(device),
    )


def _taken(data: Data, task: Row, attempt: Row) -> Row:
    state = "assigned" if task["state"] == "queued" else task["state"]
    return {
        "state": state if attempt["started_at"] is None else "running",
        "pending": spans.without(task["pending"], attempt["remaining"]),
        "losses": task["losses"] - 1,
        "not_before": None if task["items"] is None else task["not_before"],
        "reason": None,
        "detail": "",
        "exit_code": None,
        "updated_at": data.now,
        "version": task["version"] + 1,
    }


def _devices(data: Data, shares: list[Row]) -> list[Row]:
    return [row for share in shares if (row := data.devices.get(share["device_id"])) is not None]


def _adopted(data: Data, attempt: Row, lasting: timedelta, is_let_in: bool) -> Row:
    return {
        "state": "granted" if attempt["started_at"] is None else "running",
        "reason": None,
        "detail": "",
        "exit_code": None,
        "usage": None,
        "finished_at": None,
        "adoptions": attempt["adoptions"] + 1,
        "may_stand_beside": attempt["may_stand_beside"] or is_let_in,
        "lease_expires_at": data.now + lasting,
    }


@models(_sql.expired)
def expired(data: Data) -> list[Row]:
    late = [row for row in data.attempts.of("live", None) if row["lease_expires_at"] <= data.now]
    late.sort(key=lambda row: (row["lease_expires_at"], row["id"]))
    return [{"id": row["id"]} for row in late[:1000]]


@models(_sql.silence)
def silence(
    data: Data, led_until: datetime, quiet_after: timedelta, together: timedelta
) -> list[Row]:
    forgiven = data.the_leader()["forgiven_beat_at"]
    beats = [node["heartbeat_at"] for node in data.nodes.all() if node["state"] != "left"]
    recent = [at for at in beats if at > data.now - quiet_after - together]
    quiet = [
        at for at in recent if at <= data.now - quiet_after and (forgiven is None or at > forgiven)
    ]
    return [
        {
            "now": data.now,
            "forgiven_beat_at": forgiven,
            "led_until": None if led_until == NEVER else led_until,
            "last_beat_at": max((at for at in beats if at <= led_until), default=None),
            "next_beat_at": min((at for at in beats if at > led_until), default=None),
            "recent": len(recent),
            "quiet": len(quiet),
            "newest_quiet_at": max(quiet, default=None),
        }
    ]


@models(_sql.forgive)
def forgive(data: Data, holder: str, term: int, beat_at: datetime, lasting: timedelta) -> list[Row]:
    if not data.is_led_by(holder, term):
        return []
    changes = {"forgiven_beat_at": beat_at, "forgiven_until": data.now + lasting}
    return [{"term": data.leader.update(data.the_leader(), changes)["term"]}]


@models(_sql.prolong)
def prolong(
    data: Data, since: datetime, heard_until: datetime | None, lasting: timedelta
) -> list[Row]:
    for attempt in data.attempts.of("live", None):
        node = data.nodes.get(attempt["node_id"])
        assert node is not None, "an attempt has a node"
        heard_at = node["heartbeat_at"]
        is_meant = since < heard_at and (heard_until is None or heard_at <= heard_until)
        if attempt["fetched_at"] is not None and is_meant:
            by = max(attempt["lease_expires_at"], data.now + lasting)
            data.attempts.update(attempt, {"lease_expires_at": by})
    return []
