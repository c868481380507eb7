"""What the ledger must say of each attempt, from times and prices, without the server's code."""

from datetime import datetime, timedelta
from typing import Any

from potluck.model.lease import AttemptState
from potluck.model.task import EndReason
from potluck.store.database import Connection

# What was held, and from the available credit; and where it went.
_BALANCED = """
SELECT attempts.id,
    attempts.finished_at IS NOT NULL AND attempts.held_back_micro = 0 AS is_settled,
    coalesce(sum(amount_micro) FILTER (WHERE kind = 'hold' AND purse = 'held'), 0)
        - coalesce(sum(amount_micro) FILTER (
            WHERE kind = 'charge' AND purse = 'available'), 0) AS held,
    coalesce(sum(amount_micro) FILTER (
        WHERE kind IN ('reward', 'release', 'fee') AND purse = 'available'), 0) AS paid,
    coalesce(sum(amount_micro) FILTER (WHERE purse = 'fees'), 0) AS fee,
    coalesce(sum(amount_micro) FILTER (
        WHERE kind IN ('refund', 'reversal') AND purse = 'available'), 0) AS returned,
    coalesce(sum(amount_micro) FILTER (WHERE purse IN ('held', 'held_back')), 0) AS still_held
FROM attempts LEFT JOIN ledger_entries ON attempt_id = attempts.id GROUP BY attempts.id
"""
_WRONG_FEES = """
SELECT attempt_id, adoption, slice, fee_basis_points,
    sum(amount_micro) FILTER (WHERE kind IN ('reward', 'release') AND purse = 'available') AS paid,
    sum(amount_micro) FILTER (WHERE purse = 'fees' AND kind = 'fee') AS fee
FROM ledger_entries JOIN attempts ON attempts.id = attempt_id
GROUP BY attempt_id, adoption, slice, fee_basis_points
HAVING coalesce(sum(amount_micro) FILTER (WHERE purse = 'fees' AND kind = 'fee'), 0) <> floor(
    fee_basis_points / 10000.0 * coalesce(sum(amount_micro) FILTER (
        WHERE kind IN ('reward', 'release') AND purse = 'available'), 0))
"""
_ABOVE_CEILING = """
SELECT attempts.*, tasks.requirements FROM attempts JOIN tasks ON tasks.id = task_id
WHERE price_micro_per_hour
        > coalesce((requirements ->> 'max_price_micro_per_hour')::bigint, price_micro_per_hour)
    OR attempts.charge_micro > price_micro_per_hour * run_seconds_limit / 3600
    OR attempts.charge_micro
        > price_micro_per_hour * coalesce(extract(epoch FROM
            coalesce(attempts.finished_at, now()) - attempts.started_at), 0) / 3600
"""
# Before the movements of the end: what was charged in slices, and what of it was paid.
_ENDED = """
SELECT attempts.id, state, reason, price_micro_per_hour AS price, run_seconds_limit AS most_seconds,
    charge_micro, started_at, finished_at, checkpoint_at, items_seconds, is_spared, is_outlier,
    (usage ->> 'run_seconds')::double precision AS reported_seconds,
    available_micro AS consumers_credit,
    coalesce(-sum(amount_micro) FILTER (WHERE is_before AND kind = 'charge'), 0)::bigint AS charged,
    coalesce(sum(amount_micro) FILTER (
        WHERE is_before AND kind IN ('reward', 'release') AND purse = 'available'), 0)::bigint
        AS released
FROM attempts JOIN balances ON balances.account_id = consumer_id
LEFT JOIN LATERAL (SELECT *, adoption < adoptions OR slice BETWEEN 1 AND slices AS is_before
    FROM ledger_entries WHERE attempt_id = attempts.id) AS entry ON true
WHERE finished_at IS NOT NULL AND attempts.held_back_micro = 0
GROUP BY attempts.id, available_micro
"""


def cost(price_micro_per_hour: int, seconds: float) -> int:
    return price_micro_per_hour * round(max(0.0, seconds) * 1_000_000) // 3_600_000_000


async def check_sums(connection: Connection) -> None:
    """Held = paid + fee + returned + still held, for each attempt; fees and ceilings are exact."""
    for row in await connection.fetch(_BALANCED):
        moved = row["paid"] + row["fee"] + row["returned"]
        assert row["held"] == moved + row["still_held"], dict(row)
        assert not row["is_settled"] or row["still_held"] == 0, dict(row)
    wrong = await connection.fetch(_WRONG_FEES)
    assert not wrong, f"not the agreed part: {[dict(row) for row in wrong]}"
    overpaid = await connection.fetch(_ABOVE_CEILING)
    assert not overpaid, f"paid above the agreed price: {[dict(row) for row in overpaid]}"


async def check_payments(connection: Connection, uncovered_seconds: dict[str, float]) -> set[str]:
    """Each attempt that has ended costs what its end and its times say, to a micro-credit.

    Less only if it ran on for these seconds when no credit covered them, and its consumer had no
    more. Returns the ids of those.
    """
    unpaid: set[str] = set()
    for row in await connection.fetch(_ENDED):
        amounts = [max(amount, row["released"]) for amount in _possible(row)]
        if row["charge_micro"] in amounts:
            continue
        missing = max(amounts) - row["charge_micro"]
        uncovered = cost(row["price"], uncovered_seconds.get(row["id"], 0.0))
        assert 0 < missing <= uncovered, f"{missing} of {amounts} is not paid: {dict(row)}"
        unpaid.add(row["id"])
    return unpaid


def _possible(row: Any) -> list[int]:
    """What an attempt may cost; more than one amount only where the server judges the node."""
    if row["started_at"] is None:
        return [0]
    limits = (row["most_seconds"], _seconds(row["finished_at"] - row["started_at"]))
    reported = row["reported_seconds"]
    worked = min(*limits, limits[0] if reported is None else reported)
    full_cost = cost(row["price"], worked)
    secured = _secured(row, limits)
    match AttemptState(row["state"]):
        case AttemptState.LOST if row["reason"] == EndReason.SILENCE:
            return [full_cost, secured, 0]
        case AttemptState.LOST:
            return [secured]
        case AttemptState.FAILED if row["is_spared"]:
            return [0]
        case AttemptState.FAILED if row["is_outlier"]:
            return [full_cost, 0]
    return [full_cost]


def _secured(row: Any, limits: tuple[float, float]) -> int:
    items = cost(row["price"], min(*limits, row["items_seconds"]))
    checkpoint: datetime | None = row["checkpoint_at"]
    if checkpoint is None:
        return items
    kept_cost = cost(
        row["price"], min(row["most_seconds"], _seconds(checkpoint - row["started_at"]))
    )
    charged: int = row["charged"]
    return max(items, min(kept_cost, charged))


def _seconds(span: timedelta) -> float:
    return span / timedelta(seconds=1)
