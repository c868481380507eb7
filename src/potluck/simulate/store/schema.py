"""The tables, as the migrations leave them: columns, defaults, keys, checks and references.

`tests/simulate/test_schema.py` compares the columns with those of a migrated PostgreSQL. Rows that
the simulated flow never reads (sessions, invites …) have no table here.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from potluck.simulate.store import spans
from potluck.simulate.store.rows import Index, Row, Shape, Unique

TASK_STATES = ("queued", "assigned", "running", "succeeded", "failed", "cancelled", "expired")
FINAL = ("succeeded", "failed", "cancelled", "expired")
LIVE = ("granted", "preparing", "running")
AVAILABILITIES = ("available", "paused", "outside_hours", "in_use", "sick", "draining")
ATTEMPT_STATES = (*LIVE, "succeeded", "failed", "cancelled", "lost")


def is_live(attempt: Row) -> bool:
    return attempt["finished_at"] is None


def is_waiting(task: Row) -> bool:
    if task["items"] is None:
        return bool(task["state"] == "queued")
    return bool(task["pending"]) and task["state"] in ("queued", "assigned", "running")


def shapes(
    now: Callable[[], datetime], mark: Callable[[], int], number: Callable[[str], int]
) -> dict[str, Shape]:
    """`now` is the clock, `mark` this transaction's id, `number` the next one of a sequence."""
    return {
        **_people(now, mark),
        **_machines(mark, now),
        **_wishes(),
        **_bindings(now),
        "tasks": _tasks(now, mark),
        "attempts": _attempts(now),
        **_of_work(),
        **_records(now, number),
    }


def _people(now: Callable[[], datetime], mark: Callable[[], int]) -> dict[str, Shape]:
    return {
        "accounts": Shape(
            key=("id",),
            columns={
                **_none("id", "address", "suspended_at", "max_running_devices", "max_queued_tasks"),
                **_none("max_priority", "max_blob_bytes"),
                "created_at": now,
                "roles": [],
                "suspended_for": "",
                "weight": 1.0,
                "changed": mark,
            },
            uniques=(Unique("accounts_one_per_wallet", ("address",)),),
            checks={
                "roles": lambda row: {"consumer", "provider", "admin"}.issuperset(row["roles"]),
                "weight_check": lambda row: row["weight"] > 0,
                "max_running_devices_check": lambda row: _at_least(row["max_running_devices"], 0),
                "max_queued_tasks_check": lambda row: _at_least(row["max_queued_tasks"], 0),
                "max_blob_bytes_check": lambda row: _at_least(row["max_blob_bytes"], 0),
            },
            marked_by=("weight", "max_running_devices"),
            indexes={"changed": Index("changed")},
        ),
        "balances": Shape(
            key=("account_id",),
            columns={"account_id": None, "available_micro": 0, "held_micro": 0, "changed": mark},
            checks={
                "available_micro_check": lambda row: row["available_micro"] >= 0,
                "held_micro_check": lambda row: row["held_micro"] >= 0,
            },
            references={"account_id": "accounts"},
            marked_by=("available_micro",),
            indexes={"changed": Index("changed")},
        ),
        "node_keys": Shape(
            key=("id",),
            columns=_none(
                *("id", "account_id", "address", "machine", "origin", "scopes", "nonce"),
                *("signature", "issued_at", "expires_at", "used_at", "revoked_at"),
            ),
            uniques=(
                Unique("node_keys_one_wallet", ("address",), lambda row: row["revoked_at"] is None),
            ),
            checks={
                "scopes_check": lambda row: row["scopes"] == ["node"],
                "check": lambda row: row["expires_at"] > row["issued_at"],
            },
            references={"account_id": "accounts"},
        ),
    }


def _machines(mark: Callable[[], int], now: Callable[[], datetime]) -> dict[str, Shape]:
    return {
        "nodes": Shape(
            key=("id",),
            columns={
                **_none("id", "account_id", "name", "state", "own_tasks_only", "description"),
                **_none("cores", "memory_bytes", "disk_bytes", "node_key_id"),
                **_zero("used_cores", "used_memory_bytes", "used_disk_bytes"),
                **_zero("finished_attempts", "lost_attempts", "last_wish"),
                "is_polling": True,
                "registered_at": now,
                "heartbeat_at": now,
                "changed": mark,
            },
            uniques=(Unique("nodes_one_of_key", ("node_key_id",)),),
            checks={
                "state_check": lambda row: row["state"] in ("online", "silent", "left"),
                "used_cores_check": lambda row: row["used_cores"] >= 0,
                "used_memory_bytes_check": lambda row: row["used_memory_bytes"] >= 0,
                "used_disk_bytes_check": lambda row: row["used_disk_bytes"] >= 0,
            },
            references={"account_id": "accounts", "node_key_id": "node_keys"},
            marked_by=(
                *("state", "own_tasks_only", "description", "cores", "memory_bytes", "disk_bytes"),
                *("used_cores", "used_memory_bytes", "used_disk_bytes", "lost_attempts"),
                "is_polling",
            ),
            indexes={"account": Index("account_id"), "changed": Index("changed")},
        ),
        "devices": Shape(
            key=("id",),
            columns={
                **_none("id", "node_id", "uuid", "position", "kind", "description", "model"),
                **_none("memory_bytes", "price_micro_per_hour"),
                "is_present": True,
                "free_milli": 1000,
                "standing": "foreign",
                "availability": "available",
                "why": "",
                "used_memory_bytes": 0,
                "changed": mark,
            },
            uniques=(Unique("devices_node_id_uuid_key", ("node_id", "uuid")),),
            checks={
                "kind_check": lambda row: row["kind"] in ("gpu", "cpu"),
                "price_micro_per_hour_check": lambda row: row["price_micro_per_hour"] >= 0,
                "free_milli_check": lambda row: 0 <= row["free_milli"] <= 1000,
                "used_memory_bytes_check": lambda row: row["used_memory_bytes"] >= 0,
                "availability_check": lambda row: row["availability"] in AVAILABILITIES,
            },
            references={"node_id": "nodes"},
            marked_by=None,
            indexes={
                "node": Index("node_id"),
                "uuid": Index("uuid"),
                "changed": Index("changed"),
            },
        ),
    }


def _wishes() -> dict[str, Shape]:
    return {
        "wishes": Shape(
            key=("node_id", "number"),
            columns=_none("node_id", "number", "wish"),
            references={"node_id": "nodes"},
            indexes={"node": Index("node_id")},
        ),
    }


def _bindings(now: Callable[[], datetime]) -> dict[str, Shape]:
    return {
        "bindings": Shape(
            key=("uuid",),
            columns={**_none("uuid", "account_id", "node_id"), "bound_at": now},
            references={"account_id": "accounts", "node_id": "nodes"},
        ),
        "contests": Shape(
            key=("uuid",),
            columns=_none(
                *("uuid", "contender_id", "seed", "incumbent_by", "contender_by"),
                *("incumbent_was_right", "contender_was_right"),
            ),
            checks={"seed_check": lambda row: len(row["seed"]) == 32},
            references={"uuid": "bindings", "contender_id": "accounts"},
        ),
        "lost_contests": Shape(
            key=("uuid", "contender_id"),
            columns=_none("uuid", "contender_id", "lost_at"),
            references={"uuid": "bindings", "contender_id": "accounts"},
        ),
    }


def _tasks(now: Callable[[], datetime], mark: Callable[[], int]) -> Shape:
    return Shape(
        key=("id",),
        columns={
            **_none("id", "account_id", "name", "request", "idempotency_key", "request_hash"),
            **_none("priority", "reason", "exit_code", "not_before", "start_before"),
            **_none("started_at", "finished_at", "kind", "requirements", "limits"),
            **_none("max_attempts", "sealed_spec", "expected_seconds", "items"),
            **_none("sealed_secrets", "cleared_at", "retry_of"),
            **_zero("failures", "losses", "charge_micro", "waits_for", "allow_failures"),
            **_zero("items_succeeded", "items_failed", "result_count", "secret_count"),
            "state": "queued",
            "detail": "",
            "version": 1,
            "items_seconds": 0.0,
            "after_ids": [],
            "pending": spans.NOTHING,
            "created_at": now,
            "updated_at": now,
            "changed": mark,
        },
        uniques=(Unique("tasks_account_id_key", ("account_id", "idempotency_key")),),
        checks={
            "state_check": lambda row: row["state"] in TASK_STATES,
            "check": lambda row: (row["finished_at"] is not None) == (row["state"] in FINAL),
            "waits_for_check": lambda row: row["waits_for"] >= 0,
            "items_check": lambda row: _at_least(row["items"], 1),
            "secret_count_check": lambda row: row["secret_count"] >= 0,
        },
        references={"account_id": "accounts", "retry_of": "tasks"},
        derived={
            "is_waiting": is_waiting,
            "sealed_by": lambda row: row["sealed_spec"] and row["sealed_spec"][1:5],
            "secrets_by": lambda row: row["sealed_secrets"] and row["sealed_secrets"][1:5],
        },
        marked_by=("state", "not_before", "waits_for", "pending", "failures", "losses"),
        indexes={
            "account": Index("account_id"),
            "waiting": Index("is_waiting"),
            "changed": Index("changed"),
            "queued": Index("state", lambda row: row["state"] == "queued"),
        },
    )


def _attempts(now: Callable[[], datetime]) -> Shape:
    return Shape(
        key=("id",),
        columns={
            **_none("id", "task_id", "node_id", "consumer_id", "provider_id", "number"),
            **_none("reason", "exit_code", "usage", "cores", "memory_bytes", "disk_bytes"),
            **_none("price_micro_per_hour", "hold_micro", "run_seconds_limit"),
            **_none("prepare_seconds_limit", "log_bytes_limit", "fetched_at"),
            **_none("lease_expires_at", "started_at", "finished_at", "report_hash", "items"),
            **_none("progressed_at"),
            **_zero(
                "charge_micro", "log_pieces", "log_bytes", "items_done", "items_failed", "adoptions"
            ),
            "state": "granted",
            "detail": "",
            "assigned_at": now,
            "remaining": spans.NOTHING,
            "items_seconds": 0.0,
            "is_reclaimable": False,
            "may_stand_beside": False,
        },
        uniques=(
            Unique("attempts_task_id_number_key", ("task_id", "number")),
            Unique(
                "attempts_one_live",
                ("task_id",),
                lambda row: row["finished_at"] is None and row["items"] is None,
            ),
        ),
        checks={
            "state_check": lambda row: row["state"] in ATTEMPT_STATES,
            "check": lambda row: (row["finished_at"] is None) == (row["state"] in LIVE),
        },
        references={
            "task_id": "tasks",
            "node_id": "nodes",
            "consumer_id": "accounts",
            "provider_id": "accounts",
        },
        indexes={
            "task": Index("task_id"),
            "live": Index("finished_at", is_live),
            "live_of_node": Index("node_id", is_live),
            "live_of_task": Index("task_id", is_live),
        },
    )


def _of_work() -> dict[str, Shape]:
    return {
        "dependencies": Shape(
            key=("task_id", "after_id"),
            columns=_none("task_id", "after_id"),
            references={"task_id": "tasks", "after_id": "tasks"},
            indexes={"after": Index("after_id"), "task": Index("task_id")},
        ),
        "ended_tasks": Shape(
            key=("after_id",),
            columns=_none("after_id", "outcome"),
            checks={"outcome_check": lambda row: row["outcome"] in FINAL},
            references={"after_id": "tasks"},
        ),
        "attempt_devices": Shape(
            key=("attempt_id", "device_id"),
            columns={**_none("attempt_id", "device_id", "milli"), "memory_bytes": 0},
            checks={
                "milli_check": lambda row: 1 <= row["milli"] <= 1000,
                "memory_bytes_check": lambda row: row["memory_bytes"] >= 0,
            },
            references={"attempt_id": "attempts", "device_id": "devices"},
            indexes={"attempt": Index("attempt_id"), "device": Index("device_id")},
        ),
        "failed_items": Shape(
            key=("task_id", "item"),
            columns={
                **_none("task_id", "item", "failures", "is_final", "attempt_id", "reason"),
                "exit_code": None,
                "detail": "",
            },
            checks={
                "item_check": lambda row: row["item"] >= 0,
                "failures_check": lambda row: row["failures"] >= 1,
            },
            references={"task_id": "tasks", "attempt_id": "attempts"},
            indexes={"task": Index("task_id")},
        ),
    }


def _records(now: Callable[[], datetime], number: Callable[[str], int]) -> dict[str, Shape]:
    return {
        "ledger_entries": Shape(
            key=("id",),
            columns={
                "id": lambda: number("ledger_entries"),
                **_none("attempt_id", "account_id", "kind", "purse", "amount_micro"),
                "created_at": now,
                "adoption": 0,
            },
            uniques=(Unique("ledger_entries_once", ("attempt_id", "adoption", "kind", "purse")),),
            checks={
                "kind_check": lambda row: (
                    row["kind"] in ("grant", "hold", "charge", "reward", "refund")
                ),
                "purse_check": lambda row: row["purse"] in ("available", "held", "issued"),
                "amount_micro_check": lambda row: row["amount_micro"] != 0,
                "check": lambda row: (row["account_id"] is None) == (row["purse"] == "issued"),
                "check1": lambda row: (row["attempt_id"] is None) == (row["kind"] == "grant"),
            },
            references={"attempt_id": "attempts", "account_id": "accounts"},
            indexes={"attempt": Index("attempt_id"), "account": Index("account_id")},
        ),
        "events": Shape(
            key=("id",),
            columns={
                "id": lambda: number("events"),
                **_none("account_id", "task_id", "node_id", "kind", "data", "place"),
                "created_at": now,
            },
            uniques=(Unique("events_placed", ("place",)),),
            references={"account_id": "accounts", "task_id": "tasks", "node_id": "nodes"},
            indexes={
                "task": Index("task_id"),
                "unplaced": Index("place", lambda row: row["place"] is None),
            },
        ),
        "event_head": Shape(key=("is_only",), columns={"is_only": True, "place": 0, "told": 0}),
        "leader": Shape(
            key=("is_only",),
            columns={
                "is_only": True,
                "holder": "",
                "term": 0,
                **_none("led_until", "renewed_at", "expires_at"),
                **_none("forgiven_beat_at", "forgiven_until"),
            },
        ),
        "audit_head": Shape(
            key=("is_only",), columns={"is_only": True, "number": 0, "hash": bytes(32)}
        ),
        "audit": Shape(
            key=("number",),
            columns=_none("number", "at", "kind", "actor", "subject", "detail", "hash"),
        ),
    }


def _none(*columns: str) -> dict[str, Any]:
    return dict.fromkeys(columns)


def _zero(*columns: str) -> dict[str, Any]:
    return dict.fromkeys(columns, 0)


def _at_least(value: int | None, least: int) -> bool:
    return value is None or value >= least
