"""Nobody gains by causing ends of attempts on purpose; and who would, is noticed."""

import json
import subprocess
import sys

import pytest

from potluck.decide import attempt_change, failure_record
from potluck.model.lease import AttemptState
from potluck.model.task import END_REASONS, EndReason, Reporter
from verification.play import market, market_records
from verification.play.gains import LARGEST_GAIN, Gain, PlayedMarket, compare, measure_gains
from verification.play.market import Market
from verification.play.market_records import MarketSize, consumer_id
from verification.play.plays import consumer_plays, provider_plays

_SMALL = MarketSize(providers=10, consumers=10, days=3)


def gains(*names: str, role: str = "provider") -> list[Gain]:
    gains_found = measure_gains([_SMALL], seed=1, only=names).gains
    return [gain for gain in gains_found if gain.role == role]


def test_every_reason_that_one_side_can_cause_is_played() -> None:
    by_node = {
        reason for reason, facts in END_REASONS.items() if facts.reporter is not Reporter.SERVER
    }
    played = {EndReason(name.partition(",")[0]) for name in provider_plays()}
    concluded = {EndReason.LEASE_EXPIRED, EndReason.WITHDRAWN}
    assert played == (by_node | concluded) - {EndReason.CREDIT}, "the server asks for that one"
    own_reasons = {
        reason
        for reason, facts in END_REASONS.items()
        if facts.reporter is Reporter.ITEM and facts.attempt_state is AttemptState.FAILED
    }
    caused = {EndReason(name.partition(",")[0]) for name in consumer_plays()}
    assert caused == own_reasons | {EndReason.CANCELLED, EndReason.CREDIT, EndReason.SILENCE}


def test_no_provider_gains() -> None:
    """Not even one that fails just too seldom to be doubted, but each time after hours."""
    all_gains = gains("time_limit", "silence", "reclaimed", "lease_expired,")
    certain_gains = [gain for gain in all_gains if "rarely" not in gain.play]
    assert len(certain_gains) == 9
    assert max(gain.gain for gain in certain_gains) <= LARGEST_GAIN, certain_gains
    assert all(gain.ends for gain in certain_gains)


@pytest.mark.parametrize("reason", [EndReason.TIME_LIMIT, EndReason.EXIT_STATUS])
def test_a_consumer_is_spared_a_few_times_and_no_more(reason: EndReason) -> None:
    player = consumer_id(0)
    played = Market(_SMALL, 1, {player: consumer_plays()[reason]})
    played.run()
    account = played.totals[player]
    free_hours = account.run_seconds / 3600 - account.paid_micro / market.PRICE_MICRO_PER_HOUR
    assert account.attempts > 100
    paid_hours = account.paid_micro / market.PRICE_MICRO_PER_HOUR
    assert 0 < free_hours <= LARGEST_GAIN * paid_hours


def test_a_consumer_gains_nothing_by_cancelling_by_silence_or_without_credit() -> None:
    certain_gains = gains("cancelled", "credit", "silence", role="consumer")
    assert len(certain_gains) == 4
    assert max(gain.gain for gain in certain_gains) <= LARGEST_GAIN, certain_gains


def test_without_the_bound_a_consumer_would_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_record, "FIRST_SPARED", 10**9)
    monkeypatch.setattr(failure_record, "SHORT_SECONDS", 10.0**9)
    (gain,) = gains("time_limit", role="consumer")
    assert gain.gain > 0.5


def test_if_every_failure_were_charged_a_provider_would_gain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And if no node were doubted: with all of it, idling pays."""

    def as_it_is(change: attempt_change.AttemptChange, *_: object, **__: object) -> object:
        return change

    monkeypatch.setattr(attempt_change, "_judged", as_it_is)
    monkeypatch.setattr(market_records, "is_doubted", lambda *_: False)
    gain, *_ = gains("time_limit")
    assert gain.gain > LARGEST_GAIN


def _compared(*worths: float) -> Gain:
    played = [PlayedMarket(worth) for worth in worths]
    return compare("provider", "time_limit", 1.0, played, [100.0] * len(played))


def test_a_gain_is_certain_when_markets_agree_on_it() -> None:
    """By chance a player earns several percent more or less in one market."""
    by_chance = _compared(108.5, 91.0, 93.0, 107.0, 94.0, 106.0, 99.0, 101.0)
    assert by_chance.gain == pytest.approx(0.0, abs=0.001)
    assert not by_chance.is_certain
    real = _compared(*(104.0, 105.0, 106.0, 105.0) * 2)
    assert (real.gain, real.is_certain) == (0.05, True)
    assert not _compared(105.0).is_certain, "one market shows nothing"
    loss = _compared(*(94.0, 95.0, 96.0, 95.0) * 2)
    assert loss.is_certain


def test_markets_are_played_until_the_gain_is_certain() -> None:
    tiny = MarketSize(providers=10, consumers=2, days=0.1)
    summary = measure_gains([tiny], 0, ["completed"], most_markets=16)
    assert [gain.markets for gain in summary.gains] == [8]
    assert (summary.is_fair, summary.undecided) == (True, [])
    first_gains = measure_gains([tiny], 0, ["completed"])
    assert not first_gains.is_fair, "nothing is certain after one market"


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_no_play_gains() -> None:
    command = [sys.executable, "-m", "verification.play"]
    played = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    summary = json.loads(played.stdout)
    assert (played.returncode, summary["undecided"]) == (0, []), summary
    assert summary["largest_gain"] <= LARGEST_GAIN
