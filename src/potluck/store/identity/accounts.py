"""Accounts: a wallet, its roles, suspension, quota and balance."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from asyncpg import UniqueViolationError
from msgspec import Struct

from potluck.model.account import Quota, Role
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.store.database import Connection
from potluck.store.new_ids import new_account_id
from potluck.store.nodes.nodes import Owner
from potluck.store.sql_files import load
from potluck.wire.identity import AccountView

_sql = load("accounts")

_LIMITS = ("max_running_devices", "max_queued_tasks", "max_priority", "max_blob_bytes")


class Account(Struct, frozen=True):
    id: AccountId
    address: str
    roles: frozenset[Role]
    suspended_at: datetime | None = None
    suspended_for: str = ""


class LabelTaken(Exception):
    """Another account has this label."""


class AccountBalance(Struct, frozen=True):
    available_micro: int
    held_micro: int
    held_back_micro: int = 0  # of attempts that still run on its devices


async def add(connection: Connection, address: str, roles: Collection[Role]) -> Account | None:
    """The new account of a wallet; None if it already has one."""
    added = await connection.fetchrow(
        *_sql.add(account_id=new_account_id(), address=address, roles=sorted(roles))
    )
    return account(added)


async def by_address(connection: Connection, address: str) -> Account | None:
    return account(await connection.fetchrow(*_sql.by_address(address=address)))


async def by_id(connection: Connection, account_id: AccountId) -> Account | None:
    return account(await connection.fetchrow(*_sql.by_id(account_id=account_id)))


async def has_admin(connection: Connection) -> bool:
    has_admin: bool = await connection.fetchval(*_sql.has_admin())
    return has_admin


async def is_last_admin(connection: Connection, account_id: AccountId) -> bool:
    """Locks the admins until the transaction ends, so that the answer stays true."""
    await connection.execute(*_sql.lock_admins())
    others: int = await connection.fetchval(*_sql.other_admins(account_id=account_id))
    return others == 0


async def set_roles(
    connection: Connection, account_id: AccountId, roles: Collection[Role]
) -> Account | None:
    row = await connection.fetchrow(*_sql.set_roles(account_id=account_id, roles=sorted(roles)))
    return account(row)


async def choose_roles(
    connection: Connection, account_id: AccountId, roles: Collection[Role]
) -> Account:
    """Sets all roles except admin, which stays unchanged."""
    row = await connection.fetchrow(*_sql.choose_roles(account_id=account_id, roles=sorted(roles)))
    changed = account(row)
    assert changed is not None, "accounts are not deleted"
    return changed


async def add_role(connection: Connection, account_id: AccountId, role: Role) -> Account:
    """Adds one role; concurrent changes of the others are kept."""
    changed = account(await connection.fetchrow(*_sql.add_role(account_id=account_id, role=role)))
    assert changed is not None, "accounts are not deleted"
    return changed


async def suspend(connection: Connection, account_id: AccountId, reason: str) -> Account | None:
    return account(await connection.fetchrow(*_sql.suspend(account_id=account_id, reason=reason)))


async def resume(connection: Connection, account_id: AccountId) -> Account | None:
    return account(await connection.fetchrow(*_sql.resume(account_id=account_id)))


async def page(connection: Connection, after: str, limit: int) -> list[AccountView]:
    rows = await connection.fetch(*_sql.page(after_id=after, limit=limit))
    return [
        AccountView(
            row["id"],
            row["address"],
            [Role(role) for role in row["roles"]],
            row["created_at"],
            row["available_micro"],
            row["held_micro"],
            row["suspended_at"],
            row["suspended_for"],
            _quota(row),
            row["label"],
        )
        for row in rows
    ]


async def balance(connection: Connection, account_id: AccountId) -> AccountBalance | None:
    row = await connection.fetchrow(*_sql.balance(account_id=account_id))
    if row is None:
        return None
    return AccountBalance(row["available_micro"], row["held_micro"], row["held_back_micro"])


class AccountSummary(Struct, frozen=True):
    balance: AccountBalance
    quota: Quota  # the account's own limits; None where the server's settings apply
    used_bytes: int  # of its blobs


async def summary(connection: Connection, account_id: AccountId) -> AccountSummary:
    row = await connection.fetchrow(*_sql.summary(account_id=account_id))
    assert row is not None, "every account has a balance row"
    balance = AccountBalance(row["available_micro"], row["held_micro"])
    return AccountSummary(balance, _quota(row), row["used_bytes"])


async def set_quota(connection: Connection, account_id: AccountId, quota: Quota) -> Account | None:
    changed = await connection.fetchrow(*_sql.set_quota(account_id=account_id, quota=quota))
    return account(changed)


async def set_label(connection: Connection, account_id: AccountId, label: str) -> Account | None:
    """Raises LabelTaken if another account has it, in whatever case."""
    try:
        row = await connection.fetchrow(*_sql.set_label(account_id=account_id, label=label))
    except UniqueViolationError as error:
        raise LabelTaken from error
    return account(row)


async def lock_available(connection: Connection, account_id: AccountId) -> int:
    """The available credit, which nothing else changes until the transaction ends."""
    available: int = await connection.fetchval(*_sql.lock_balance(account_id=account_id))
    return available


async def tasks_of_suspended(connection: Connection) -> list[tuple[AccountId, TaskId]]:
    rows = await connection.fetch(*_sql.tasks_of_suspended())
    return [(row["account_id"], row["id"]) for row in rows]


async def nodes_of_suspended(connection: Connection) -> list[tuple[Owner, NodeId]]:
    rows = await connection.fetch(*_sql.nodes_of_suspended())
    return [(Owner(row["account_id"], row["node_key_id"]), row["id"]) for row in rows]


def _quota(row: Any) -> Quota:
    return Quota(row["weight"], *(row[limit] for limit in _LIMITS))


def account(row: Any) -> Account | None:
    """The account in a row that has its columns."""
    if row is None:
        return None
    roles = frozenset(Role(role) for role in row["roles"])
    return Account(row["id"], row["address"], roles, row["suspended_at"], row["suspended_for"])
