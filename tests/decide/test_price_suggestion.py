"""What similar devices earned, and when that is not told."""

from msgspec.structs import replace

from potluck.decide.price_suggestion import OwnerWork, SimilarWork, SuggestedPrice, suggest_price

HOUR = 3600.0


def earned(credits_per_hour: float, hours: float = 10.0) -> OwnerWork:
    return OwnerWork(hours * HOUR, round(credits_per_hour * hours * 1_000_000))


WEEK = SimilarWork(
    is_same_model=True,
    devices=4,
    offered_seconds=100 * HOUR,
    worked_seconds=61 * HOUR,
    owners=tuple(map(earned, (0.18, 0.21, 0.30, 0.34, 0.60))),
)


def test_the_middle_half_of_the_owners_and_how_busy_they_were() -> None:
    assert suggest_price(WEEK) == SuggestedPrice(
        "Similar devices earned 0.21 to 0.34 an hour last week, and were busy 61 % of the time.",
        210_000,
        340_000,
        61,
    )


def test_devices_of_other_models_are_called_so() -> None:
    suggestion = suggest_price(replace(WEEK, is_same_model=False))
    assert suggestion.sentence.startswith("Devices with about the same memory earned 0.21 to 0.34")


def test_the_work_of_few_owners_is_not_told() -> None:
    few_owners = replace(WEEK, owners=(earned(0.2), earned(0.9)))
    suggestion = suggest_price(few_owners)
    assert (
        suggestion.low_micro_per_hour,
        suggestion.high_micro_per_hour,
        suggestion.busy_percent,
    ) == (None,) * 3
    assert suggestion.sentence == (
        "Too few owners of similar devices had paid work last week to say what they earn."
        " No other owner offers a similar device now."
    )
    suggestion = suggest_price(replace(few_owners, prices_micro=(0, 250_000)))
    assert suggestion.sentence.endswith("Others offer similar devices for 0 to 0.25 an hour.")
    assert "0.9" not in suggestion.sentence


def test_amounts_have_two_digits() -> None:
    """So that one of three owners does not learn the amount of another."""
    owners = tuple(map(earned, (0.123456, 0.234567, 0.345678)))
    suggestion = suggest_price(replace(WEEK, owners=owners))
    assert (suggestion.low_micro_per_hour, suggestion.high_micro_per_hour) == (180_000, 290_000)


def test_one_price_is_no_range_and_nothing_is_more_than_always() -> None:
    owners = (earned(0.25),) * 3
    suggestion = suggest_price(replace(WEEK, owners=owners, worked_seconds=200 * HOUR))
    assert suggestion.sentence == (
        "Similar devices earned 0.25 an hour last week, and were busy 100 % of the time."
    )
