"""What owners are promised, after each transaction: checked against the rows that it wrote.

Written anew, and not with the code that keeps the promises.
"""

from collections import Counter

from potluck.simulate.store.capacity import terms
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row

_NOBODYS_FAULT = ("silence",)


def broken_promises(data: Data) -> list[str]:
    changes = _changes(data, "attempts")
    return [
        *(
            sentence
            for before, row in changes
            if before is None
            for sentence in _unwanted(data, row)
        ),
        *_too_late(data, changes),
        *_unjust(data, changes),
    ]


def _changes(data: Data, table: str) -> list[tuple[Row | None, Row]]:
    """Rows as they were before the transaction, and as they are."""
    first: dict[object, Row | None] = {}
    for written, key, before in data.log.written:
        if written.name == table:
            first.setdefault(key, before)
    rows = ((before, data.log.tables[table].get(key)) for key, before in first.items())
    return [(before, row) for before, row in rows if row is not None]


def _unwanted(data: Data, attempt: Row) -> list[str]:
    """What an owner was given that he had said he does not take."""
    consumer = data.accounts.get(attempt["consumer_id"])
    assert consumer is not None, "an attempt has a consumer"
    shares = data.attempt_devices.of("attempt", attempt["id"])
    devices = [row for share in shares if (row := data.devices.get(share["device_id"])) is not None]
    found = [
        f"{attempt['id']} came to {row['uuid']}, which is {row['availability']}"
        for row in devices
        if row["availability"] != "available"
    ]
    for row in devices:
        said = terms(row)
        is_allowed = not said.get("allow") or consumer["address"] in said["allow"]
        is_denied = not is_allowed or consumer["address"] in said.get("deny", [])
        if is_denied and attempt["consumer_id"] != attempt["provider_id"]:
            found.append(f"{attempt['id']} of {consumer['address']} came to {row['uuid']}")
    return found


def _too_late(data: Data, changes: list[tuple[Row | None, Row]]) -> list[str]:
    """What was handed out for the first time when an owner had closed a device of it."""
    return [
        f"{row['id']} was handed out for a device that is closed"
        for before, row in changes
        if before is not None and before["fetched_at"] is None and row["fetched_at"] is not None
        if not _is_open(data, row)
    ]


def _unjust(data: Data, changes: list[tuple[Row | None, Row]]) -> list[str]:
    """Losses that are held against a node without its fault, or are not though they are."""
    due: Counter[str] = Counter()
    for before, row in changes:
        is_open = _is_open(data, row)
        was_due = before is not None and _counts(before, is_open)
        due[row["node_id"]] += _counts(row, is_open) - was_due
    found = []
    for before, row in _changes(data, "nodes"):
        counted = row["lost_attempts"] - (0 if before is None else before["lost_attempts"])
        if counted != due[row["id"]]:
            found.append(f"{row['id']} has {counted} more losses, and {due[row['id']]} are its own")
    return found


def _counts(attempt: Row, is_open: bool) -> bool:
    if attempt["state"] != "lost" or attempt["reason"] in _NOBODYS_FAULT:
        return False
    is_excused = attempt["reason"] == "withdrawn" or (
        attempt["reason"] == "reclaimed" and attempt["is_reclaimable"]
    )
    return is_open or not is_excused


def _is_open(data: Data, attempt: Row) -> bool:
    shares = data.attempt_devices.of("attempt", attempt["id"])
    devices = [row for share in shares if (row := data.devices.get(share["device_id"])) is not None]
    return all(row["availability"] == "available" for row in devices)
