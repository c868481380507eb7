"""Accounts, their tokens' hashes and their balances."""

from msgspec import Struct

from potluck.model.error import Conflict
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.mint import new_account_id
from potluck.store.named import load

_sql = load("accounts")


class Account(Struct, frozen=True):
    id: AccountId
    name: str
    is_operator: bool


class Balance(Struct, frozen=True):
    available_micro: int
    held_micro: int


async def add(connection: Connection, name: str, token_hash: bytes) -> AccountId:
    account_id = new_account_id()
    if await connection.fetchval(_sql.add, account_id, name, False) is None:
        raise Conflict(f"There is already an account named {name!r}.", "Choose another name.")
    await connection.execute(_sql.add_token, token_hash, account_id)
    return account_id


async def add_operator(connection: Connection, token_hash: bytes) -> None:
    """Makes the operator's account where there is none, and lets this token in."""
    await connection.execute(_sql.add, new_account_id(), "operator", True)
    await connection.execute(_sql.add_token, token_hash, await connection.fetchval(_sql.operator))


async def by_token(connection: Connection, token_hash: bytes) -> Account | None:
    row = await connection.fetchrow(_sql.by_token, token_hash)
    return Account(row["id"], row["name"], row["is_operator"]) if row else None


async def balance(connection: Connection, account_id: AccountId) -> Balance | None:
    row = await connection.fetchrow(_sql.balance, account_id)
    return Balance(row["available_micro"], row["held_micro"]) if row else None
