"""Node and server of different versions: told in a sentence, and never by stopping what works."""

import pytest

import potluck
from potluck.provider.announcement import Announcement, VersionSkew
from potluck.provider.server.version_skew import Skews, misunderstood, skew


@pytest.mark.parametrize(
    ("own_version", "server_version"),
    [
        ("0.2.1", "0.2.9"),  # made to work together
        ("0.2.0", ""),  # a server that does not say
        ("0.2.0", "nightly"),
        ("1.10.0rc1", "1.10.3"),
    ],
)
def test_versions_that_fit_are_no_news(own_version: str, server_version: str) -> None:
    assert skew(own_version, server_version) is None


@pytest.mark.parametrize(
    ("own_version", "server_version", "order"),
    [("0.1.0", "0.2.0", "older"), ("0.10.0", "0.9.5", "newer"), ("1.0.0", "2.0.0", "older")],
)
def test_a_version_difference_is_a_warning_with_a_fix(
    own_version: str, server_version: str, order: str
) -> None:
    warning = skew(own_version, server_version)
    assert warning is not None
    assert order in warning.detail and "Tasks run;" in warning.detail
    assert f"Install Potluck {server_version}" in warning.hint
    assert ("Ask the operator to update" in warning.hint) is (order == "newer")


def test_version_skew_explains_a_refused_registration() -> None:
    warning = misunderstood("0.2.0", "0.1.0", "unknown field `colour`.")
    assert warning is not None
    assert "0.1.0" in warning.detail and "unknown field `colour`" in warning.detail
    assert misunderstood("0.2.0", "0.2.0", "no") is None, "that would be a mistake of ours"
    assert misunderstood("0.2.0", "", "no") is None


def test_each_version_of_a_server_is_reported_once() -> None:
    announcements: list[Announcement] = []
    skews = Skews(announcements.append)
    for server_version in ("99.1.0", "99.1.0", potluck.__version__, "99.2.0"):
        before = len(announcements)
        skews.note(server_version)
        assert (len(announcements), skews.theirs) == (before, server_version), (
            "not before it is time"
        )
        skews.tell()
    assert [
        announcement.theirs
        for announcement in announcements
        if isinstance(announcement, VersionSkew)
    ] == ["99.1.0", "99.2.0"]
