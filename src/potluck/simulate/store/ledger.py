"""Models of queries/ledger.sql, with the trigger that keeps the balances, and of leader.sql."""

from collections import defaultdict
from datetime import timedelta

import asyncpg

from potluck.simulate.store.data import NEVER, Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("ledger")
_leader = load("leader")


@models(_sql.append)
def append(
    data: Data,
    attempt_ids: list[str | None],
    adoptions: list[int],
    account_ids: list[str | None],
    kinds: list[str],
    purses: list[str],
    amounts_micro: list[int],
) -> list[Row]:
    columns = ("attempt_id", "adoption", "account_id", "kind", "purse", "amount_micro")
    sides = zip(attempt_ids, adoptions, account_ids, kinds, purses, amounts_micro, strict=True)
    added = [data.ledger_entries.insert(dict(zip(columns, side, strict=True))) for side in sides]
    _check_balance(added)
    _move(data, added)
    return []


def _check_balance(added: list[Row]) -> None:
    """Those of each attempt sum to zero."""
    sums: dict[str | None, int] = defaultdict(int)
    for entry in added:
        sums[entry["attempt_id"]] += entry["amount_micro"]
    if any(sums.values()):
        raise asyncpg.CheckViolationError("ledger entries do not balance")


def _move(data: Data, added: list[Row]) -> None:
    moved: dict[str, dict[str, int]] = defaultdict(lambda: {"available": 0, "held": 0})
    for entry in added:
        if entry["account_id"] is not None:
            moved[entry["account_id"]][entry["purse"]] += entry["amount_micro"]
    for account_id, sums in sorted(moved.items()):
        balance = data.balances.get(account_id)
        if balance is not None:
            changes = {f"{of}_micro": balance[f"{of}_micro"] + sums[of] for of in sums}
            data.balances.update(balance, changes)


@models(_leader.lead)
def lead(data: Data, holder: str, lasting: timedelta) -> list[Row]:
    before = data.the_leader()
    has_run_out = before["expires_at"] <= data.now
    if before["holder"] != holder and not has_run_out:
        return []
    goes_on = before["holder"] == holder and not has_run_out
    term = before["term"] if goes_on else before["term"] + 1
    led_until = before["led_until"] if goes_on else before["expires_at"]
    data.leader.update(
        before,
        {
            "holder": holder,
            "term": term,
            "led_until": led_until,
            "renewed_at": data.now,
            "expires_at": data.now + lasting,
        },
    )
    return [{"term": term, "led_until": led_until}]


@models(_leader.holds)
def holds(data: Data, holder: str, term: int) -> list[Row]:
    return [{"set_config": "1s"}] if data.is_led_by(holder, term) else []


@models(_leader.resign)
def resign(data: Data, holder: str) -> list[Row]:
    row = data.the_leader()
    if row["holder"] == holder:
        data.leader.update(row, {"expires_at": data.now})
    return []


@models(_leader.is_led)
def is_led(data: Data) -> list[Row]:
    return [{"is_led": data.the_leader()["expires_at"] > data.now}]


@models(_leader.remaining)
def remaining(data: Data) -> list[Row]:
    until = data.the_leader()["expires_at"]
    return [] if until == NEVER else [{"seconds": (until - data.now).total_seconds()}]
