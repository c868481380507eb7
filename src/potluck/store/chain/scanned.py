"""What was read from a chain: the place reached, deposits, claims, and why reading has stopped."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from potluck.decide.charges import LedgerSide
from potluck.decide.payouts.scan import ScanCursor
from potluck.decide.payouts.token_rate import TokenRate
from potluck.model.credit import EntryKind, Purse
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.ledger import ledger, payouts
from potluck.store.ledger.ledger import Movement
from potluck.store.ledger.payouts import Payout
from potluck.store.sql_files import load

_sql = load("chain_scan")


class ContractKey(Struct, frozen=True):
    """Amounts mean something for one contract on one chain only."""

    chain_id: int
    contract: str

    def __str__(self) -> str:
        return f"{self.contract} on chain {self.chain_id}"


class KnownContract(Struct, frozen=True):
    key: ContractKey
    token: str
    rate: TokenRate
    cursor: ScanCursor
    head_block: int | None
    halted_because: str | None
    waits_because: str | None
    waits_since: datetime | None


class LogPlace(Protocol):
    """Identifies an event of a chain."""

    @property
    def block_number(self) -> int: ...
    @property
    def log_index(self) -> int: ...
    @property
    def transaction_hash(self) -> bytes: ...
    @property
    def block_hash(self) -> bytes: ...


class NewDeposit(Struct, frozen=True):
    place: LogPlace
    address: str
    payer: str
    units: int
    amount_micro: int | None  # None: it cannot be credited


class NewClaim(Struct, frozen=True):
    place: LogPlace
    address: str
    units: int
    cumulative_units: int
    root: bytes
    amount_micro: int


class UnpaidClaim(Struct, frozen=True):
    """Seen on the chain, and not in the ledger as a payout."""

    transaction_hash: bytes
    log_index: int
    block_number: int
    address: str
    amount_micro: int
    account_id: AccountId | None  # None: the wallet has no account


class ClaimPosition(Struct, frozen=True):
    """In the order of the chain."""

    block_number: int = -1
    log_index: int = -1


class ContractStanding(Struct, frozen=True):
    """For alerts and metrics."""

    known: KnownContract
    unpaid_claims: int
    open_since: datetime | None  # of a transaction that is not settled


async def add_contract(
    connection: Connection, key: ContractKey, token: str, rate: TokenRate, first_block: int
) -> None:
    """Without effect if it is known."""
    await connection.execute(
        *_sql.add_contract(key=key, token=token, rate=rate, first_block=first_block)
    )


async def get_contract(connection: Connection, key: ContractKey) -> KnownContract | None:
    row = await connection.fetchrow(*_sql.contract(key=key))
    return None if row is None else _contract(row)


async def lock_contract(connection: Connection, key: ContractKey) -> KnownContract:
    """One transaction at a time changes what is known of a contract."""
    return _contract(await connection.fetchrow(*_sql.lock_contract(key=key)))


async def note_head(connection: Connection, key: ContractKey, head: int) -> None:
    await connection.execute(*_sql.note_head(key=key, head=head))


async def note_wait(connection: Connection, key: ContractKey, because: str) -> None:
    """Why no root is proposed or accepted; no reason if none is to be."""
    await connection.execute(*_sql.note_wait(key=key, because=because))


async def halt(connection: Connection, key: ContractKey, because: str) -> bool:
    """Returns whether it was not halted before."""
    return bool(await connection.fetchval(*_sql.halt(key=key, because=because)))


async def resume(connection: Connection, key: ContractKey, cursor: ScanCursor | None) -> None:
    """Continues, after this block if one is given."""
    block = None if cursor is None else cursor.block
    hash_ = None if cursor is None else cursor.hash
    await connection.execute(*_sql.resume(key=key, block=block, hash=hash_))


async def add_events(
    connection: Connection,
    key: ContractKey,
    cursor: ScanCursor,
    deposits: Sequence[NewDeposit],
    claims: Sequence[NewClaim],
) -> None:
    """Events up to the cursor. The caller has locked the contract."""
    if deposits:
        await connection.execute(*_sql.add_deposits(key=key, deposits=deposits))
    if claims:
        await connection.execute(*_sql.add_claims(key=key, claims=claims))
    await connection.execute(*_sql.move_cursor(key=key, block=cursor.block, hash=cursor.hash))


async def credit_deposits(connection: Connection, key: ContractKey, limit: int) -> int:
    """Credits deposits of a contract whose wallets have accounts; returns how many."""
    rows = await connection.fetch(*_sql.lock_uncredited(key=key, limit=limit))
    await connection.execute(*_sql.mark_credited(ids=[row["id"] for row in rows]))
    await ledger.append_many(
        connection,
        [
            Movement(_deposit_entries(row["account_id"], row["amount_micro"]), deposit_id=row["id"])
            for row in rows
        ],
    )
    return len(rows)


async def lock_unpaid_claims(
    connection: Connection, key: ContractKey, after: ClaimPosition, limit: int
) -> list[UnpaidClaim]:
    rows = await connection.fetch(*_sql.lock_unpaid_claims(key=key, after=after, limit=limit))
    return [UnpaidClaim(**row) for row in rows]


async def sum_claimed(connection: Connection, key: ContractKey, address: str) -> int:
    """In units of the token, as far as the chain was read."""
    return int(await connection.fetchval(*_sql.claimed(key=key, address=address)))


async def lock_assigned(
    connection: Connection, key: ContractKey, account_ids: Sequence[AccountId]
) -> dict[AccountId, int]:
    """What the ledger has assigned to the contract, and no payout has covered."""
    rows = await connection.fetch(*_sql.assigned(key=key, account_ids=account_ids))
    return {row["account_id"]: row["assigned_micro"] for row in rows}


async def pay_claims(
    connection: Connection, key: ContractKey, claims: Sequence[tuple[UnpaidClaim, Payout]]
) -> None:
    """Moves what was claimed from claimable to paid. The caller has locked claims and balances."""
    made = [payout for _, payout in claims]
    await connection.execute(*_sql.unassign(payouts=made))
    await payouts.record(connection, made, None)
    for claim, payout in claims:
        await connection.execute(
            *_sql.mark_paid(
                key=key,
                transaction_hash=claim.transaction_hash,
                log_index=claim.log_index,
                payout_id=payout.id,
            )
        )


async def list_standings(connection: Connection) -> list[ContractStanding]:
    rows = await connection.fetch(*_sql.standing())
    return [
        ContractStanding(_contract(row), row["unpaid_claims"], row["open_since"]) for row in rows
    ]


def _deposit_entries(account_id: AccountId, amount_micro: int) -> tuple[LedgerSide, ...]:
    return (
        LedgerSide(None, EntryKind.DEPOSIT, Purse.DEPOSITED, -amount_micro),
        LedgerSide(account_id, EntryKind.DEPOSIT, Purse.AVAILABLE, amount_micro),
    )


def _contract(row: Mapping[str, Any]) -> KnownContract:
    return KnownContract(
        ContractKey(row["chain_id"], row["contract"]),
        row["token"],
        TokenRate(row["token_units"], row["credit_micro"]),
        ScanCursor(row["scanned_block"], row["scanned_hash"]),
        row["head_block"],
        row["halted_because"],
        row["waits_because"],
        row["waits_since"],
    )
