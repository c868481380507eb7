"""Models of queries/accounts.sql and node_keys.sql, as far as work depends on them."""

from typing import Any

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("accounts")
_keys = load("node_keys")


@models(_sql.add)
def add(data: Data, account_id: str, address: str, roles: list[str]) -> list[Row]:
    if data.accounts.find("accounts_one_per_wallet", address) is not None:
        return []
    account = data.accounts.insert({"id": account_id, "address": address, "roles": roles})
    data.balances.insert({"account_id": account_id})
    return [account]


@models(_sql.by_id)
def by_id(data: Data, account_id: str) -> list[Row]:
    return _found(data.accounts.get(account_id))


@models(_sql.by_address)
def by_address(data: Data, address: str) -> list[Row]:
    return _found(data.accounts.find("accounts_one_per_wallet", address))


@models(_sql.suspend)
def suspend(data: Data, account_id: str, reason: str) -> list[Row]:
    account = data.accounts.get(account_id)
    if account is None:
        return []
    since = account["suspended_at"] or data.now
    return [data.accounts.update(account, {"suspended_at": since, "suspended_for": reason})]


@models(_sql.resume)
def resume(data: Data, account_id: str) -> list[Row]:
    account = data.accounts.get(account_id)
    if account is None:
        return []
    return [data.accounts.update(account, {"suspended_at": None, "suspended_for": ""})]


@models(_sql.balance)
def balance(data: Data, account_id: str) -> list[Row]:
    found = data.balances.get(account_id)
    return _found(found and _only(found, "available_micro", "held_micro"))


@models(_sql.tasks_of_suspended)
def tasks_of_suspended(data: Data) -> list[Row]:
    suspended = [row for row in data.accounts.all() if row["suspended_at"] is not None]
    found = [
        _only(task, "account_id", "id")
        for account in suspended
        for task in data.tasks.of("account", account["id"])
        if task["finished_at"] is None
    ]
    return sorted(found, key=lambda row: row["id"])[:1000]


@models(_sql.nodes_of_suspended)
def nodes_of_suspended(data: Data) -> list[Row]:
    suspended = [row for row in data.accounts.all() if row["suspended_at"] is not None]
    found = [
        _only(node, "account_id", "node_key_id", "id")
        for account in suspended
        for node in data.nodes.of("account", account["id"])
        if node["state"] != "left"
    ]
    return sorted(found, key=lambda row: row["id"])[:1000]


@models(_keys.hold)
def hold_key(data: Data, node_key_id: str) -> list[Row]:
    return [
        _only(key, "id") for key in _found(data.node_keys.get(node_key_id)) if in_force(data, key)
    ]


def in_force(data: Data, key: Row) -> bool:
    return key["revoked_at"] is None and bool(key["expires_at"] > data.now)


def _found(row: Row | None) -> list[Row]:
    return [] if row is None else [row]


def _only(row: Row, *columns: str) -> dict[str, Any]:
    return {column: row[column] for column in columns}
