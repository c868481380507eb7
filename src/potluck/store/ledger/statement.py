"""An account's own ledger: entries and summary."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.model.credit import EntryKind, Purse
from potluck.model.ids import AccountId, TaskId
from potluck.store.database import Connection
from potluck.store.identity import accounts
from potluck.store.sql_files import load
from potluck.wire.money.ledger import LedgerEntry, LedgerLine, LedgerSummary, LineBy

_sql = load("ledger_list")
_MAX_LINES = 1_000
# Between the purses of one account.
_MOVED_TO_HELD = (EntryKind.HOLD, EntryKind.REFUND, EntryKind.RELEASE)


class LedgerPosition(Struct, frozen=True, order=True):
    """A position in the order of the ledger."""

    at: datetime
    id: int = 0


class EntryFilter(Struct, frozen=True):
    """Entries of these kinds, at `since` or later, before a position."""

    kinds: Sequence[EntryKind]
    since: datetime
    before: LedgerPosition
    task_id: TaskId | None = None


async def place(
    connection: Connection, entry_id: int, account_id: AccountId
) -> LedgerPosition | None:
    """The position of an entry; None if it is not the account's."""
    row = await connection.fetchrow(*_sql.place(entry_id=entry_id, account_id=account_id))
    return None if row is None else LedgerPosition(row["created_at"], row["id"])


async def newest(
    connection: Connection, account_id: AccountId, selection: EntryFilter, limit: int
) -> list[LedgerEntry]:
    kinds = list(dict.fromkeys(selection.kinds))
    query = _sql.newest if selection.task_id is None else _sql.of_task
    rows = await connection.fetch(
        *query(account_id=account_id, kinds=kinds, filter=selection, limit=limit)
    )
    return [_entry(row) for row in rows]


async def summary(
    connection: Connection, account_id: AccountId, since: datetime, until: datetime, by: LineBy
) -> LedgerSummary:
    """From one snapshot, if the transaction has only one."""
    total, *rows = await connection.fetch(
        *_sql.summary(
            account_id=account_id,
            since=since,
            until=until,
            by_day=by is LineBy.DAY,
            limit=_MAX_LINES + 1,
        )
    )
    balance = await accounts.balance(connection, account_id)
    assert balance is not None, "every account has a balance row"
    return LedgerSummary(
        balance.available_micro,
        balance.held_micro,
        since,
        until,
        total["granted_micro"],
        total["spent_micro"],
        total["earned_micro"],
        [_line(row) for row in rows],
        await connection.fetchval(*_sql.is_free()),
        total["deposited_micro"],
        total["set_aside_micro"],
    )


def _entry(row: Mapping[str, Any]) -> LedgerEntry:
    kind, purse, amount = EntryKind(row["kind"]), Purse(row["purse"]), row["amount_micro"]
    is_available = purse is Purse.AVAILABLE
    is_claimable = purse is Purse.CLAIMABLE
    return LedgerEntry(
        row["id"],
        row["created_at"],
        kind,
        amount if is_available else 0,
        -amount if kind in _MOVED_TO_HELD else 0 if is_available or is_claimable else amount,
        row["task_id"],
        row["task_name"],
        row["attempt_id"],
        row["node_name"],
        -amount if kind is EntryKind.EPOCH else amount if is_claimable else 0,
    )


def _line(row: Mapping[str, Any]) -> LedgerLine:
    return LedgerLine(
        row["granted_micro"],
        row["spent_micro"],
        row["earned_micro"],
        row["day"],
        row["task_id"],
        row["task_name"],
        row["deposited_micro"],
        row["set_aside_micro"],
    )
