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
SELECT attempt_id, device_id, uuid, availability, devices.description -> 'terms' AS terms, address,
    consumer_id = provider_id AS is_owner
FROM attempt_devices JOIN devices ON devices.id = device_id
    JOIN attempts ON attempts.id = attempt_id JOIN accounts ON accounts.id = consumer_id
WHERE attempt_id = ANY($1) ORDER BY attempt_id, device_id
"""


class AvailabilityHistory:
    """The last transaction in which each device opened or closed, as the number of its step."""

    def __init__(self) -> None:
        self._changed_in: dict[str, int] = {}

    def note(self, changes: list[RowChange], step: int) -> None:
        for change in changes:
            if change.table == "devices" and _is_open(change.before) != _is_open(change.after):
                self._changed_in[change.row["id"]] = step

    def changed_since(self, step: int) -> frozenset[str]:
        return frozenset(device for device, last in self._changed_in.items() if last > step)


def _is_open(device: Row | None) -> bool:
    return device is not None and device["availability"] == "available"


class AttemptShares:
    """The devices of attempts, with the consumers of these.

    `racing` devices opened or closed while the checked transaction was running: it may have read
    them before or after that, since ending an attempt does not lock them.
    """

    def __init__(self, rows: list[Any], racing: frozenset[str] = frozenset()) -> None:
        self._racing = racing
        self._by_attempt: dict[str, list[Any]] = {}
        for row in rows:
            self._by_attempt.setdefault(row["attempt_id"], []).append(row)

    def of(self, attempt: Row) -> list[Any]:
        return self._by_attempt.get(attempt["id"], [])

    def are_open(self, attempt: Row) -> bool:
        return all(share["availability"] == "available" for share in self.of(attempt))

    def readings(self, attempt: Row) -> set[bool]:
        """Whether all devices were open, in each way that the transaction may have read them."""
        certain = [share for share in self.of(attempt) if share["device_id"] not in self._racing]
        if any(share["availability"] != "available" for share in certain):
            return {False}
        return {True} if len(certain) == len(self.of(attempt)) else {True, False}


def find_owner_violations(
    sessions: Sessions, changes: list[RowChange], racing: frozenset[str]
) -> list[str]:
    attempts = net_changes(changes, "attempts")
    rows = sessions.fetch(_SHARES, [row["id"] for _, row in attempts]) if attempts else []
    shares = AttemptShares(rows, racing)
    return [
        *(text for before, row in attempts if before is None for text in _unwanted(row, shares)),
        *_too_late(attempts, shares),
        *find_unjust_losses(changes, shares),
    ]


def _unwanted(attempt: Row, shares: AttemptShares) -> list[str]:
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


def _too_late(attempts: list[tuple[Row | None, Row]], shares: AttemptShares) -> list[str]:
    """Attempts that were first fetched after the owner had closed one of their devices."""
    return [
        f"{row['id']} was handed out for a device that is closed"
        for before, row in attempts
        if before is not None and before["fetched_at"] is None and row["fetched_at"] is not None
        if not shares.are_open(row)
    ]


def find_unjust_losses(changes: list[RowChange], shares: AttemptShares) -> list[str]:
    """Nodes whose counted losses differ from the losses that were their fault."""
    least: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for before, row in net_changes(changes, "attempts"):
        due = [_due(before, row, is_open) for is_open in shares.readings(row)]
        least[row["node_id"]] += min(due)
        most[row["node_id"]] += max(due)
    found = []
    for before, row in net_changes(changes, "nodes"):
        node_id = row["id"]
        counted = row["lost_attempts"] - (0 if before is None else before["lost_attempts"])
        if not least[node_id] <= counted <= most[node_id]:
            due_text = " to ".join(map(str, sorted({least[node_id], most[node_id]})))
            found.append(f"{node_id} has {counted} more losses, and {due_text} are its own")
    return found


def _due(before: Row | None, row: Row, is_open: bool) -> int:
    return _counts(row, is_open) - (before is not None and _counts(before, is_open))


def _counts(attempt: Row, is_open: bool) -> bool:
    if attempt["state"] != "lost" or attempt["reason"] in _NO_FAULT:
        return False
    is_excused = attempt["reason"] == "withdrawn" or (
        attempt["reason"] == "reclaimed" and attempt["is_reclaimable"]
    )
    return is_open or not is_excused
