"""What a tenth of the consumers or of the providers gains by each play, over honest play."""

from collections.abc import Iterable

from msgspec import Struct

from potluck.model.ids import AccountId
from potluck.model.task import EndReason
from verification.play.market import PRICE_MICRO_PER_HOUR, Market
from verification.play.market_records import MarketSize, consumer_id, provider_id
from verification.play.plays import Play, consumer_plays, provider_plays

LARGEST_GAIN = 0.01


class Gain(Struct, frozen=True):
    role: str
    play: str
    gain: float  # 0.01: a hundredth more than with honest play
    ends: int  # attempts of the pool that ended with the reason


class PlaySummary(Struct, frozen=True):
    seed: int
    size: MarketSize
    largest_gain: float
    honest_loss: float  # what honest providers forfeit of what they earn, while all are honest
    gains: list[Gain]

    @property
    def is_fair(self) -> bool:
        return self.largest_gain <= LARGEST_GAIN


def measure_gains(size: MarketSize, seed: int, only: Iterable[str] = ()) -> PlaySummary:
    """Plays all reasons, or those that begin with one of `only`, one after the other."""
    base = _run(size, seed, {})
    consumers = [consumer_id(number) for number in range(max(1, size.consumers // 10))]
    providers = [provider_id(number) for number in range(max(1, size.providers // 10))]
    gains: list[Gain] = []
    for role, players, plays, worth in (
        ("consumer", consumers, consumer_plays(), _work_for_credit),
        ("provider", providers, provider_plays(), _earned),
    ):
        for name, play in plays.items():
            if not only or name.startswith(tuple(only)):
                market = _run(size, seed, dict.fromkeys(players, play))
                gain = worth(market, players) / worth(base, players) - 1
                ends = market.reasons[EndReason(name.partition(",")[0])]
                gains.append(Gain(role, name, round(gain, 4), ends))
    earned = sum(each.earned_micro for each in base.totals.values())
    loss = round(base.forfeited_micro / max(1, earned), 6)
    return PlaySummary(seed, size, max(each.gain for each in gains), loss, gains)


def _run(size: MarketSize, seed: int, plays: dict[AccountId, Play]) -> Market:
    market = Market(size, seed, plays)
    market.run()
    return market


def _earned(market: Market, players: list[AccountId]) -> float:
    return sum(market.totals[each].earned_micro for each in players)


def _work_for_credit(market: Market, players: list[AccountId]) -> float:
    """The value of the time in which nodes ran their code, whatever came of it, for what they paid.

    A consumer who can do with nothing but the fact that an attempt failed values that time too.
    """
    totals = [market.totals[each] for each in players]
    value_micro = sum(each.run_seconds for each in totals) * PRICE_MICRO_PER_HOUR / 3600
    return value_micro / max(1, sum(each.paid_micro for each in totals))
