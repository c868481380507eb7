"""The estimated cost of a task that was not submitted."""

from msgspec import Struct

from potluck.decide.charges import SettleTimes, hold_micro
from potluck.decide.pool.dry_run import Market
from potluck.model.task import TaskRequest


class CostEstimate(Struct, frozen=True):
    """All None if no suitable device has a price."""

    hold_micro: int | None  # to start, at the lowest price; of an array, for one item
    most_micro: int | None  # all attempts and items to the time limit, at the highest price
    expected_micro: int | None  # at the lowest price, if the duration is known
    can_pay: bool  # one attempt, or one item, at the lowest price


def estimate_cost(
    request: TaskRequest,
    market: Market,
    available_micro: int,
    item_seconds: float | None,
    settle_times: SettleTimes,
) -> CostEstimate:
    least, most = market.cheapest_micro_per_hour, market.dearest_micro_per_hour
    if least is None or most is None:
        return CostEstimate(None, None, None, can_pay=True)
    limit, items = request.limits.run_seconds, request.items or 1
    hold = hold_micro(least, settle_times.funded_seconds(limit))
    return CostEstimate(
        hold_micro=hold,
        most_micro=hold_micro(most, limit) * items * request.max_attempts,
        expected_micro=None if item_seconds is None else hold_micro(least, item_seconds * items),
        can_pay=hold <= available_micro,
    )
