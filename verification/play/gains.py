"""What a tenth of the consumers or of the providers gains by each play, over honest play.

What a player earns in one market differs by several percent by chance, so a play is repeated in
further markets until its gain is certain to be below or above the limit. Each market is compared
with the one of the same seed in which all are honest.
"""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from msgspec import Struct

from potluck.model.ids import AccountId
from potluck.model.task import EndReason
from verification.play.market import PRICE_MICRO_PER_HOUR, Market
from verification.play.market_records import MarketSize, consumer_id, provider_id
from verification.play.plays import consumer_plays, provider_plays

LARGEST_GAIN = 0.01
FEWEST_MARKETS = 8
# How many standard errors a gain must be away from the limit.
_CERTAIN_ERRORS = 3.0


class PlayedMarket(Struct, frozen=True):
    """One market; `worth` is what the players try to increase."""

    worth: float
    ends: int = 0  # attempts of the pool that ended with the reason of the play
    forfeited_micro: int = 0
    earned_micro: int = 0


class Gain(Struct, frozen=True):
    role: str
    play: str
    days: float
    gain: float  # 0.01: a hundredth more than with honest play
    standard_error: float | None  # None: one market has none
    markets: int
    ends: int

    @property
    def is_certain(self) -> bool:
        if self.markets < FEWEST_MARKETS or self.standard_error is None:
            return False
        return abs(self.gain - LARGEST_GAIN) > _CERTAIN_ERRORS * self.standard_error


class PlaySummary(Struct, frozen=True):
    seed: int
    sizes: Sequence[MarketSize]
    largest_gain: float
    undecided: list[str]  # plays for which more markets are needed
    honest_loss: float  # what honest providers forfeit of what they earn, while all are honest
    gains: list[Gain]

    @property
    def is_fair(self) -> bool:
        """Whether no gain is above the limit, and all are certain."""
        return self.largest_gain <= LARGEST_GAIN and not self.undecided


def measure_gains(
    sizes: Sequence[MarketSize],
    seed: int,
    only: Iterable[str] = (),
    *,
    most_markets: int = 1,
    processes: int = 1,
) -> PlaySummary:
    """Plays all reasons, or those that begin with one of `only`, one after the other."""
    prefixes = tuple(only) or ("",)
    plays = [("consumer", name) for name in consumer_plays()]
    plays += [("provider", name) for name in provider_plays()]
    chosen = [(role, name) for role, name in plays if name.startswith(prefixes)]
    gains: list[Gain] = []
    honest: list[PlayedMarket] = []
    with _Markets(processes) as markets:
        for size in sizes:
            for role, name in chosen:
                gains.append(markets.measure(size, seed, role, name, most_markets))
            honest += markets.honest(size)
    earned = sum(market.earned_micro for market in honest)
    loss = sum(market.forfeited_micro for market in honest) / max(1, earned)
    undecided = [
        f"{gain.role}: {gain.play} ({gain.days:g} days)" for gain in gains if not gain.is_certain
    ]
    largest = max(gain.gain for gain in gains)
    return PlaySummary(seed, sizes, largest, undecided, round(loss, 6), gains)


def compare(
    role: str, play: str, days: float, played: Sequence[PlayedMarket], honest: Sequence[float]
) -> Gain:
    """The gain over all markets, and how exactly they show it."""
    worths, mean = [market.worth for market in played], sum(honest) / len(honest)
    ratio = sum(worths) / sum(honest)
    error = None
    if len(honest) > 1:
        differences = [worth - ratio * base for worth, base in zip(worths, honest, strict=True)]
        variance = sum(each * each for each in differences) / (len(honest) - 1)
        error = round(math.sqrt(variance / len(honest)) / mean, 5)
    ends = sum(market.ends for market in played)
    return Gain(role, play, days, round(ratio - 1, 5), error, len(played), ends)


class _Markets:
    """Runs markets on several processors, and keeps those in which all are honest."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool = ProcessPoolExecutor(processes) if processes > 1 else None
        self._honest: dict[tuple[MarketSize, str], dict[int, PlayedMarket]] = {}

    def __enter__(self) -> "_Markets":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def measure(self, size: MarketSize, seed: int, role: str, play: str, most: int) -> Gain:
        played: list[PlayedMarket] = []
        while True:
            count = min(most, max(FEWEST_MARKETS, 2 * len(played)))
            played += self._run(size, role, play, range(seed + len(played), seed + count))
            honest = [market.worth for market in self._find_honest(size, role, seed, count)]
            gain = compare(role, play, size.days, played, honest)
            if gain.is_certain or count == most:
                return gain

    def honest(self, size: MarketSize) -> list[PlayedMarket]:
        return [
            market
            for (honest_size, _), markets in self._honest.items()
            if honest_size == size
            for market in markets.values()
        ]

    def _find_honest(
        self, size: MarketSize, role: str, seed: int, count: int
    ) -> list[PlayedMarket]:
        known = self._honest.setdefault((size, role), {})
        missing = [each for each in range(seed, seed + count) if each not in known]
        known |= zip(missing, self._run(size, role, None, missing), strict=True)
        return [known[each] for each in range(seed, seed + count)]

    def _run(
        self, size: MarketSize, role: str, play: str | None, seeds: Sequence[int]
    ) -> list[PlayedMarket]:
        run = partial(play_market, size, role, play)
        return list(map(run, seeds) if self._pool is None else self._pool.map(run, seeds))


def play_market(size: MarketSize, role: str, play: str | None, seed: int) -> PlayedMarket:
    """One market in which a tenth of the accounts with this role play; all are honest if None."""
    is_consumer = role == "consumer"
    name, count = (consumer_id, size.consumers) if is_consumer else (provider_id, size.providers)
    players = [name(number) for number in range(max(1, count // 10))]
    plays = consumer_plays() if is_consumer else provider_plays()
    market = Market(size, seed, {} if play is None else dict.fromkeys(players, plays[play]))
    market.run()
    worth = _work_for_credit if is_consumer else _earned
    return PlayedMarket(
        worth(market, players),
        0 if play is None else market.reasons[EndReason(play.partition(",")[0])],
        market.forfeited_micro,
        sum(totals.earned_micro for totals in market.totals.values()),
    )


def _earned(market: Market, players: list[AccountId]) -> float:
    return sum(market.totals[each].earned_micro for each in players)


def _work_for_credit(market: Market, players: list[AccountId]) -> float:
    """The value of the time in which nodes ran their code, whatever came of it, for what they paid.

    A consumer who can do with nothing but the fact that an attempt failed values that time too.
    """
    totals = [market.totals[each] for each in players]
    value_micro = sum(each.run_seconds for each in totals) * PRICE_MICRO_PER_HOUR / 3600
    return value_micro / max(1, sum(each.paid_micro for each in totals))
