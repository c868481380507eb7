"""Faults to plant in the SQL, each of which the proof must find.

A statement is changed in PostgreSQL's mouth only: the model goes on doing what it was.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from msgspec import Struct

from potluck.simulate.store import database  # noqa: F401  all statements have their models
from potluck.simulate.store.statements import stand_for
from potluck.store.sql_files import load
from tests.simulate.prove import Difference, Proof, prove


class Plant(Struct, frozen=True):
    """What is taken out of a statement, or of the schema."""

    name: str
    file: str = ""
    block: str = ""
    clause: str = ""
    instead: str = ""
    index: str = ""
    function: str = ""


class Found(Struct, frozen=True):
    """How long it took to notice."""

    name: str
    seconds: float
    histories: int
    difference: str


PLANTS = (
    Plant("no fencing", "changes", "write", "attempts.id = how.id AND finished_at IS NULL",
          "attempts.id = how.id"),
    Plant("no guard on the device", "assign", "assign", "AND free_milli >= wanted.milli"),
    Plant("double settle", index="ledger_entries_once"),
    Plant("no fencing by the node", "leases", "beat", "node_id = $1 AND id = ANY($4)",
          "id = ANY($4)"),
    Plant("an old leader's plan", "leader", "holds", "AND term = $2", "AND term >= $2 - 1"),
    Plant("no guard on the memory", "assign", "assign",
          "AND devices.memory_bytes - used_memory_bytes >= wanted.memory_bytes"),
    Plant("no guard on the range", "assign", "assign", "pending @> $18 AND state IN", "state IN"),
    Plant("no guard on the way back", "leases", "adopt", "AND free_milli >= share.milli"),
    Plant("no guard on the availability", "assign", "assign", "AND availability = 'available'"),
    Plant("no guard on the wallet", "assign", "assign", "takes_wallet(description -> 'terms',",
          "takes_wallet('{}',"),
    Plant("back on a sick device", "leases", "adopt", "AND availability <> 'sick'"),
    Plant("no lock on the task", clause="ORDER BY tasks.id FOR UPDATE", function="lock_attempts"),
)  # fmt: skip


@contextmanager
def planted(plant: Plant, url: str) -> Iterator[None]:
    if plant.index:
        planting = _in_schema(plant, url)
    elif plant.function:
        planting = _in_function(plant, url)
    else:
        planting = _in_statement(plant)
    with planting:
        yield


@contextmanager
def _in_statement(plant: Plant) -> Iterator[None]:
    blocks = load(plant.file).blocks
    whole = blocks[plant.block]
    assert plant.clause in whole, f"{plant.name}: {plant.file}.{plant.block} has changed"
    blocks[plant.block] = whole.replace(plant.clause, plant.instead)
    stand_for(blocks[plant.block], whole)
    try:
        yield
    finally:
        blocks[plant.block] = whole


@contextmanager
def _in_schema(plant: Plant, url: str) -> Iterator[None]:
    definition = asyncio.run(_drop(plant.index, url))
    try:
        yield
    finally:
        asyncio.run(_make_again(definition, url))


@contextmanager
def _in_function(plant: Plant, url: str) -> Iterator[None]:
    whole = asyncio.run(_defined(plant.function, url))
    assert plant.clause in whole, f"{plant.name}: {plant.function} has changed"
    asyncio.run(_define(whole.replace(plant.clause, plant.instead), url))
    try:
        yield
    finally:
        asyncio.run(_define(whole, url))


async def _defined(function: str, url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        definition: str = await connection.fetchval(
            "SELECT pg_get_functiondef($1::regproc)", function
        )
    finally:
        await connection.close()
    return definition


async def _define(definition: str, url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(definition)
    finally:
        await connection.close()


async def _drop(index: str, url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        definition: str = await connection.fetchval("SELECT pg_get_indexdef($1::regclass)", index)
        await connection.execute(f"DROP INDEX {index}")
    finally:
        await connection.close()
    return definition


async def _make_again(definition: str, url: str) -> None:
    """What stands in its way goes: it was written while nothing forbade it."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute("DELETE FROM ledger_entries")
        await connection.execute(definition)
    finally:
        await connection.close()


def find(plant: Plant, url: str, *, first: int = 0, seconds: float = 300.0) -> Found | None:
    """What the proof says about it; None if it says nothing for so long."""
    begun, tried = time.monotonic(), 0
    with planted(plant, url):
        while time.monotonic() - begun < seconds:
            try:
                done: Proof = asyncio.run(prove(url, range(first + tried, first + tried + 5)))
                tried += done.histories
            except Difference as difference:
                told = str(difference).splitlines()[0]
                return Found(plant.name, round(time.monotonic() - begun, 1), tried + 1, told)
    return None
