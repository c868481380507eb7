"""Faults to plant in the SQL, each of which the histories must find."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from potluck.store.named import load
from verification.faults.sessions import Sessions


class PlantedFault(Struct, frozen=True):
    """What is taken out of a statement, of a function or of the schema."""

    name: str
    file: str = ""
    block: str = ""
    clause: str = ""
    replacement: str = ""
    index: str = ""
    function: str = ""


PLANTED_FAULTS = (
    PlantedFault(
        "no fencing",
        "changes",
        "write",
        "attempts.id = how.id AND finished_at IS NULL",
        "attempts.id = how.id",
    ),
    PlantedFault("no guard on the device", "assign", "assign", "AND free_milli >= wanted.milli"),
    PlantedFault("double settle", index="ledger_entries_once"),
    PlantedFault(
        "no fencing by the node", "leases", "beat", "node_id = $1 AND id = ANY($4)", "id = ANY($4)"
    ),
    PlantedFault("an old leader's plan", "leader", "holds", "AND term = $2", "AND term >= $2 - 1"),
    PlantedFault(
        "no guard on the memory",
        "assign",
        "assign",
        "AND devices.memory_bytes - used_memory_bytes >= wanted.memory_bytes",
    ),
    PlantedFault(
        "no guard on the range", "assign", "assign", "pending @> $18 AND state IN", "state IN"
    ),
    PlantedFault("no guard on the way back", "leases", "adopt", "AND free_milli >= share.milli"),
    PlantedFault(
        "no guard on the availability", "assign", "assign", "AND availability = 'available'"
    ),
    PlantedFault(
        "no guard on the wallet",
        "assign",
        "assign",
        "takes_wallet(description -> 'terms',",
        "takes_wallet('{}',",
    ),
    PlantedFault("back on a sick device", "leases", "adopt", "AND availability <> 'sick'"),
    PlantedFault(
        "no lock on the task", clause="ORDER BY tasks.id FOR UPDATE", function="lock_attempts"
    ),
)


@contextmanager
def planted(fault: PlantedFault, sessions: Sessions) -> Iterator[None]:
    if fault.index:
        with _without_index(fault, sessions):
            yield
    elif fault.function:
        with _in_function(fault, sessions):
            yield
    else:
        with _in_statement(fault):
            yield


@contextmanager
def _in_statement(fault: PlantedFault) -> Iterator[None]:
    blocks = load(fault.file).blocks
    whole = blocks[fault.block]
    assert fault.clause in whole, f"{fault.name}: {fault.file}.{fault.block} has changed"
    blocks[fault.block] = whole.replace(fault.clause, fault.replacement)
    try:
        yield
    finally:
        blocks[fault.block] = whole


@contextmanager
def _without_index(fault: PlantedFault, sessions: Sessions) -> Iterator[None]:
    (row,) = sessions.fetch("SELECT pg_get_indexdef($1::regclass) AS definition", fault.index)
    sessions.fetch(f"DROP INDEX {fault.index}")
    try:
        yield
    finally:
        sessions.fetch("SELECT clock.reset()")
        sessions.fetch(row["definition"])


@contextmanager
def _in_function(fault: PlantedFault, sessions: Sessions) -> Iterator[None]:
    query = "SELECT pg_get_functiondef($1::regproc) AS definition"
    (row,) = sessions.fetch(query, fault.function)
    assert fault.clause in row["definition"], f"{fault.name}: {fault.function} has changed"
    sessions.fetch(row["definition"].replace(fault.clause, fault.replacement))
    try:
        yield
    finally:
        sessions.fetch(row["definition"])
