"""Checks the guarantees to owners after each transaction, against the rows that it wrote.

Implemented independently of the product's code.
"""

from collections import Counter
from typing import Any

import msgspec

from verification.faults.row_changes import Row, RowChange, net_changes
from verification.faults.sessions import Sessions

_NO_FAULT = ("silence",)
_SHARES = """
SELECT attempt_id, uuid, availability, devices.description -> 'terms' AS terms, address,
    consumer_id = provider_id AS is_owner
FROM attempt_devices JOIN devices ON devices.id = device_id
    JOIN attempts ON attempts.id = attempt_id JOIN accounts ON accounts.id = consumer_id
WHERE attempt_id = ANY($1) ORDER BY attempt_id, device_id
"""


class _Shares:
    """The devices of attempts, with the consumers of these."""

    def __init__(self, rows: list[Any]) -> None:
        self._by_attempt: dict[str, list[Any]] = {}
        for row in rows:
            self._by_attempt.setdefault(row["attempt_id"], []).append(row)

    def of(self, attempt: Row) -> list[Any]:
        return self._by_attempt.get(attempt["id"], [])

    def are_open(self, attempt: Row) -> bool:
        return all(share["availability"] == "available" for share in self.of(attempt))


def find_owner_violations(sessions: Sessions, changes: list[RowChange]) -> list[str]:
    attempts = net_changes(changes, "attempts")
    if not attempts:
        return _unjust(changes, [], _Shares([]))
    shares = _Shares(sessions.fetch(_SHARES, [row["id"] for _, row in attempts]))
    return [
        *(text for before, row in attempts if before is None for text in _unwanted(row, shares)),
        *_too_late(attempts, shares),
        *_unjust(changes, attempts, shares),
    ]


def _unwanted(attempt: Row, shares: _Shares) -> list[str]:
    """New attempts that the owner's terms exclude."""
    found = [
        f"{attempt['id']} came to {share['uuid']}, which is {share['availability']}"
        for share in shares.of(attempt)
        if share["availability"] != "available"
    ]
    for share in shares.of(attempt):
        terms = msgspec.json.decode(share["terms"]) if share["terms"] else {}
        is_allowed = not terms.get("allow") or share["address"] in terms["allow"]
        is_denied = not is_allowed or share["address"] in terms.get("deny", [])
        if is_denied and not share["is_owner"]:
            found.append(f"{attempt['id']} of {share['address']} came to {share['uuid']}")
    return found


def _too_late(attempts: list[tuple[Row | None, Row]], shares: _Shares) -> list[str]:
    """Attempts that were first fetched after the owner had closed one of their devices."""
    return [
        f"{row['id']} was handed out for a device that is closed"
        for before, row in attempts
        if before is not None and before["fetched_at"] is None and row["fetched_at"] is not None
        if not shares.are_open(row)
    ]


def _unjust(
    changes: list[RowChange], attempts: list[tuple[Row | None, Row]], shares: _Shares
) -> list[str]:
    """Nodes whose counted losses differ from the losses that were their fault."""
    due: Counter[str] = Counter()
    for before, row in attempts:
        is_open = shares.are_open(row)
        was_due = before is not None and _counts(before, is_open)
        due[row["node_id"]] += _counts(row, is_open) - was_due
    found = []
    for before, row in net_changes(changes, "nodes"):
        counted = row["lost_attempts"] - (0 if before is None else before["lost_attempts"])
        if counted != due[row["id"]]:
            found.append(f"{row['id']} has {counted} more losses, and {due[row['id']]} are its own")
    return found


def _counts(attempt: Row, is_open: bool) -> bool:
    if attempt["state"] != "lost" or attempt["reason"] in _NO_FAULT:
        return False
    is_excused = attempt["reason"] == "withdrawn" or (
        attempt["reason"] == "reclaimed" and attempt["is_reclaimable"]
    )
    return is_open or not is_excused
