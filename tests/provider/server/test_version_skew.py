"""Node and server of different versions: told in a sentence, and never by stopping what works."""

import pytest

import potluck
from potluck.provider.announcement import Announcement, VersionSkew
from potluck.provider.server.version_skew import Skews, misunderstood, skew


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("0.2.1", "0.2.9"),  # made to work together
        ("0.2.0", ""),  # a server that does not say
        ("0.2.0", "nightly"),
        ("1.10.0rc1", "1.10.3"),
    ],
)
def test_versions_that_fit_are_no_news(ours: str, theirs: str) -> None:
    assert skew(ours, theirs) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "order"),
    [("0.1.0", "0.2.0", "older"), ("0.10.0", "0.9.5", "newer"), ("1.0.0", "2.0.0", "older")],
)
def test_others_are_told_with_what_works_and_what_to_do(ours: str, theirs: str, order: str) -> None:
    told = skew(ours, theirs)
    assert told is not None
    assert order in told.detail and "Tasks run;" in told.detail
    assert f"Install Potluck {theirs}" in told.hint
    assert ("Ask the operator to update" in told.hint) is (order == "newer")


def test_version_skew_explains_a_refused_registration() -> None:
    told = misunderstood("0.2.0", "0.1.0", "unknown field `colour`.")
    assert told is not None
    assert "0.1.0" in told.detail and "unknown field `colour`" in told.detail
    assert misunderstood("0.2.0", "0.2.0", "no") is None, "that would be a mistake of ours"
    assert misunderstood("0.2.0", "", "no") is None


def test_each_version_of_a_server_is_reported_once() -> None:
    told: list[Announcement] = []
    skews = Skews(told.append)
    for theirs in ("99.1.0", "99.1.0", potluck.__version__, "99.2.0"):
        before = len(told)
        skews.note(theirs)
        assert (len(told), skews.theirs) == (before, theirs), "not before it is time"
        skews.tell()
    assert [each.theirs for each in told if isinstance(each, VersionSkew)] == ["99.1.0", "99.2.0"]
