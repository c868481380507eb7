"""The audit log: append-only; every entry's hash covers the entry before it.

The hash is keyed, so write access to the database alone is not enough to forge a valid chain. An
entry is written in the transaction of its action: there is no action without its entry.
"""

import hmac
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from potluck.model.audit import AuditKind
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.identity import AuditEntry, AuditVerdict

_sql = load("audit")
_START = bytes(32)
_BATCH = 2_000


class Fact(Struct, frozen=True):
    """The content of an entry."""

    kind: AuditKind
    actor: str
    subject: str = ""
    detail: Mapping[str, str] = {}


async def append(
    connection: Connection,
    key: bytes,
    kind: AuditKind,
    actor: str,
    subject: str = "",
    detail: Mapping[str, str] | None = None,
) -> None:
    await append_all(connection, key, [Fact(kind, actor, subject, detail or {})])


async def append_all(connection: Connection, key: bytes, facts: Sequence[Fact]) -> None:
    """In one call: the head is locked by everyone, so it is held for one insert only."""
    if not facts:
        return
    head = await connection.fetchrow(*_sql.lock_head())
    first, at, chain = head["number"] + 1, head["at"], [head["hash"]]
    for number, fact in enumerate(facts, first):
        content = (number, at, fact.kind, fact.actor, fact.subject, fact.detail)
        chain.append(_hash(key, chain[-1], *content))
    await connection.execute(*_sql.append(first_number=first, at=at, facts=facts, hashes=chain[1:]))
    await connection.execute(*_sql.move_head(number=first + len(facts) - 1, hash=chain[-1]))


async def newest(connection: Connection, before: int, limit: int) -> list[AuditEntry]:
    rows = await connection.fetch(*_sql.newest(before_number=before, limit=limit))
    return [_entry(row) for row in rows]


async def verify(connection: Connection, key: bytes) -> AuditVerdict:
    """Follows the chain from its start; reports where it breaks first."""
    number, previous = 0, _START
    while True:
        head = await connection.fetchrow(*_sql.head())
        rows = await connection.fetch(*_sql.page(after_number=number, limit=_BATCH))
        for row in rows:
            if row["number"] != number + 1 or row["hash"] != _hash_of(key, previous, row):
                return AuditVerdict(False, number, previous.hex(), number + 1)
            number, previous = row["number"], row["hash"]
        if not rows or number >= head["number"]:
            break
    # The chain may have grown past the head that was read.
    if number < head["number"] or (number == head["number"] and previous != head["hash"]):
        return AuditVerdict(False, number, previous.hex(), number + 1)
    return AuditVerdict(True, number, previous.hex())


def _hash_of(key: bytes, previous: bytes, row: Any) -> bytes:
    number, at, kind = row["number"], row["at"], row["kind"]
    return _hash(key, previous, number, at, kind, row["actor"], row["subject"], _detail(row))


def _hash(
    key: bytes,
    previous: bytes,
    number: int,
    at: datetime,
    kind: str,
    actor: str,
    subject: str,
    detail: Mapping[str, str],
) -> bytes:
    moment = at.astimezone(UTC).isoformat(timespec="microseconds")
    content = (number, moment, str(kind), actor, subject, sorted(detail.items()))
    return hmac.digest(key, previous + msgspec.json.encode(content), "sha256")


def _entry(row: Any) -> AuditEntry:
    return AuditEntry(
        row["number"],
        row["at"],
        row["kind"],
        row["actor"],
        row["subject"],
        _detail(row),
        row["hash"].hex(),
    )


def _detail(row: Any) -> dict[str, str]:
    return msgspec.json.decode(row["detail"], type=dict[str, str])
