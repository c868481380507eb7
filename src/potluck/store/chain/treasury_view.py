"""What the treasury reads of the ledger, to compare a root with it."""

from msgspec import Struct

from potluck.decide.payouts.token_rate import TokenRate
from potluck.store.chain.scanned import ContractKey
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("chain_treasury")


class WalletCover(Struct, frozen=True):
    """A wallet of a root, and the entries that cover its part."""

    address: str
    assigned_micro: int  # to this contract, up to the root
    elsewhere_micro: int  # paid outside, or assigned to other contracts
    set_aside_micro: int  # by closed epochs
    earned_micro: int  # without the fee


class TreasuryView(Struct, frozen=True):
    token: str
    rate: TokenRate
    statement: bytes  # SHA-256 of that of the last epoch in the root
    wallets: tuple[WalletCover, ...]


async def read(connection: Connection, key: ContractKey, number: int) -> TreasuryView | None:
    """None if the ledger has no such root."""
    root = await connection.fetchrow(*_sql.root(key=key, number=number))
    if root is None:
        return None
    rows = await connection.fetch(*_sql.wallets(key=key, number=number))
    return TreasuryView(
        root["token"],
        TokenRate(root["token_units"], root["credit_micro"]),
        root["statement_sha256"],
        tuple(WalletCover(**row) for row in rows),
    )
