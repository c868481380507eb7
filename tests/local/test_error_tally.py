"""Errors are counted by kind and place, without secrets, and within bounds."""

from potluck.local.error_tally import ErrorTally, TalliedError
from potluck.model.error import InvalidInput
from potluck.model.units import parse_bytes

KEY = "potluck_key_" + "x" * 43


def raised(text: str = "many") -> InvalidInput:
    try:
        parse_bytes(text, "--memory")
    except InvalidInput as error:
        return error
    raise AssertionError("it is not a size")


def test_errors_of_one_kind_and_place_are_one_group_and_the_last_is_shown() -> None:
    tally = ErrorTally()
    tally.note("request failed", raised("many"), "request failed")
    tally.note("request failed", raised("few"), "request failed")
    tally.note("request failed", KeyError("a"), "request failed")
    first, second = tally.collect()
    assert (first.kind, first.place) == ("InvalidInput", "potluck.model.units.parse_bytes")
    assert first.occurrences == 2 and "'few'" in first.message
    assert (second.kind, second.occurrences) == ("KeyError", 1)
    assert tally.collect() == []


def test_the_place_is_the_innermost_of_ours() -> None:
    tally = ErrorTally()
    try:
        parse_bytes(None, "--memory")  # type: ignore[arg-type]
    except AttributeError as error:
        tally.note("request failed", error, "request failed")
    assert tally.collect()[0].place == "potluck.model.units.parse_bytes"


def test_an_error_without_an_exception_is_a_group_of_its_own() -> None:
    tally = ErrorTally()
    tally.note("invariant violated", None, "invariant violated")
    (error,) = tally.collect()
    assert (error.kind, error.place, error.trace) == ("logged", "invariant violated", "")


def test_secrets_are_masked_and_causes_are_shown() -> None:
    tally = ErrorTally()
    try:
        try:
            raise ValueError(f"refused {KEY}")
        except ValueError as cause:
            raise RuntimeError("no answer") from cause
    except RuntimeError as error:
        tally.note("request failed", error, "request failed")
    (group,) = tally.collect()
    assert "ValueError: refused [secret]" in group.trace and KEY not in group.trace


def test_errors_of_a_library_are_masked_and_grouped_by_format() -> None:
    tally = ErrorTally()
    for number in range(3):
        url = f"redis://potluck:hunter{number}@cache"
        tally.note(f"{KEY} cannot reach {url}", None, "a.library: %s cannot reach %s")
    tally.note(f"refused {KEY}", None, f"a.library: refused {KEY}")
    first, second = tally.collect()
    assert (first.place, first.occurrences) == ("a.library: %s cannot reach %s", 3)
    assert first.message == "[secret] cannot reach redis://potluck:[secret]@cache"
    assert (second.place, second.message) == ("a.library: refused [secret]", "refused [secret]")


def test_a_flood_is_bounded() -> None:
    tally = ErrorTally()
    for number in range(1_000):
        tally.note(f"error {number}", None, f"error {number}")
        tally.note("again", None, "again")
        tally.note("request failed", raised("m" * 100_000), "request failed")
    errors = tally.collect()
    assert len(errors) == 200 and max(error.occurrences for error in errors) == 1_000
    assert sum(len(error.message) + len(error.trace) for error in errors) < 50_000


def test_no_part_of_a_secret_is_kept_of_a_long_text() -> None:
    """Neither where the part that is read ends, nor if masked secrets move it forward."""
    secret = f"token=s3cr3t-{'x' * 3_000}"
    for text in (secret * 100, "a" * 4_000 + secret, "a " * 4_000 + secret + " b" * 4_200):
        tally = ErrorTally()
        tally.note("request failed", raised(text), "request failed")
        tally.note(text, None, "logged")
        for error in tally.collect():
            assert "s3cr3t" not in error.message + error.trace
            assert "xxx" not in error.message + error.trace


def test_unstored_errors_are_counted_with_later_ones() -> None:
    tally = ErrorTally()
    tally.note("request failed", raised(), "request failed")
    unstored = tally.collect()
    tally.note("request failed", raised(), "request failed")
    tally.give_back(unstored)
    errors: list[TalliedError] = tally.collect()
    assert [error.occurrences for error in errors] == [2]
