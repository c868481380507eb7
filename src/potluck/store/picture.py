"""The whole truth at one moment, for the invariants."""

from typing import Any, TypeVar

import msgspec

from potluck.decide.invariants import (
    AttemptFact,
    DeviceFact,
    NodeFact,
    Picture,
    PurseFact,
    TaskFact,
)
from potluck.store.database import Connection
from potluck.store.named import load

_sql = load("picture")

Fact = TypeVar("Fact", bound=msgspec.Struct)


async def take(connection: Connection) -> Picture:
    """First in its transaction: all parts are of one moment."""
    await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    return Picture(
        tasks=_facts(await connection.fetch(_sql.tasks), TaskFact),
        attempts=_facts(await connection.fetch(_sql.attempts), AttemptFact),
        nodes=_facts(await connection.fetch(_sql.nodes), NodeFact),
        devices=_facts(await connection.fetch(_sql.devices), DeviceFact),
        purses=_facts(await connection.fetch(_sql.purses), PurseFact),
        entries_sum_micro=await connection.fetchval(_sql.entries_sum),
    )


def _facts(rows: list[Any], kind: type[Fact]) -> tuple[Fact, ...]:
    return tuple(msgspec.convert(dict(row), kind, strict=False) for row in rows)
