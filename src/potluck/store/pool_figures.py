"""Figures of the whole pool, for metrics; not used for planning."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from potluck.decide.alerts.conditions import RewardsReading
from potluck.store import backups
from potluck.store.alerts import observations
from potluck.store.chain import transactions
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("figures")
_MISSING = timedelta(hours=1)
_COUNTED_EVENTS = 10_000
_ENTRIES = 50_000
# Longer than any transaction lasts.
_SETTLED = timedelta(minutes=2)


class NodeFigures(Struct, frozen=True):
    online: int
    silent: int
    missing: int  # those of the silent ones that fell silent lately


class DeviceFigures(Struct, frozen=True):
    kind: str
    state: str
    devices: int
    used_milli: int


class OutboxFigures(Struct, frozen=True):
    events: int
    lag_seconds: float


class ContractFigures(Struct, frozen=True):
    """Of a rewards contract."""

    contract: str
    lag_blocks: int
    is_stopped: bool
    wait_seconds: float


class PoolFigures(Struct, frozen=True):
    nodes: NodeFigures
    devices: tuple[DeviceFigures, ...]
    attempts: Mapping[str, int]  # by state
    balances_micro: Mapping[str, int]  # by purse
    outbox: OutboxFigures
    backed_up_at: datetime | None  # the end of the latest complete backup
    rewards: RewardsReading
    contracts: tuple[ContractFigures, ...] = ()
    payout_transactions: Mapping[str, int] = {}  # by state


class MovedCredit(Struct, frozen=True):
    last_id: int  # of the ledger entries that were read
    moved_micro: Mapping[str, int]  # by kind of entry
    is_all: bool  # False if there are more


async def read_figures(connection: Connection) -> PoolFigures:
    """One statement after the other: each sees its own snapshot."""
    nodes = await connection.fetchrow(*_sql.nodes(missing=_MISSING))
    devices = await connection.fetch(*_sql.devices())
    attempts = await connection.fetch(*_sql.attempts())
    balances = await connection.fetchrow(*_sql.balances())
    outbox = await connection.fetchrow(*_sql.outbox(limit=_COUNTED_EVENTS))
    return PoolFigures(
        NodeFigures(**nodes),
        tuple(DeviceFigures(**row) for row in devices),
        {row["state"]: row["attempts"] for row in attempts},
        {purse: int(micro) for purse, micro in balances.items()},
        OutboxFigures(**outbox),
        await backups.latest_finished_at(connection),
        await observations.read_rewards(connection),
        tuple(ContractFigures(**row) for row in await connection.fetch(*_sql.contracts())),
        await transactions.count_by_state(connection),
    )


async def find_ledger_end(connection: Connection, settled: timedelta = _SETTLED) -> int:
    """The last entry before those whose transactions may be open."""
    last_id: int = await connection.fetchval(*_sql.ledger_end(settled=settled))
    return last_id


async def read_moved(
    connection: Connection, after_id: int, settled: timedelta = _SETTLED
) -> MovedCredit:
    """What entries after this one have moved, up to those whose transactions may be open."""
    rows = await connection.fetch(*_sql.moved(after_id=after_id, settled=settled, limit=_ENTRIES))
    return MovedCredit(
        max((row["last_id"] for row in rows), default=after_id),
        {row["kind"]: row["moved_micro"] for row in rows},
        sum(row["entries"] for row in rows) < _ENTRIES,
    )
