"""A token that was read before is worth no more than one that was not."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.model.account import Credential
from potluck.server.auth import access_tokens
from potluck.server.auth.access_tokens import Claims
from potluck.store.new_ids import new_account_id

KEY, OTHER = b"k" * 32, b"o" * 32
CLAIMS = Claims(new_account_id(), Credential.SESSION, "session_" + new_account_id()[8:])
LEEWAY = timedelta(seconds=5)
# Not the machine's time: only the time that is given counts.
NOW = datetime(2031, 5, 17, 12, 0, tzinfo=UTC)
LIFETIME = timedelta(minutes=5)
MOMENT = timedelta(milliseconds=1)


def test_a_token_that_was_read_before_ends_when_it_says() -> None:
    token = access_tokens.issue(KEY, CLAIMS, NOW, LIFETIME)
    end = NOW + LIFETIME + LEEWAY
    for now in (NOW, end - MOMENT):
        assert access_tokens.read(KEY, token, now) == CLAIMS
    for now in (end, end + LIFETIME):
        assert access_tokens.read(KEY, token, now) is None


def test_a_token_of_the_future_is_not_good_yet_also_if_it_was_read_before() -> None:
    token = access_tokens.issue(KEY, CLAIMS, NOW, LIFETIME)
    for _ in range(2):
        assert access_tokens.read(KEY, token, NOW - LEEWAY - MOMENT) is None
        assert access_tokens.read(KEY, token, NOW - LEEWAY) == CLAIMS


def test_a_cached_token_is_refused_with_another_key_or_character() -> None:
    token = access_tokens.issue(KEY, CLAIMS, NOW, LIFETIME)
    assert access_tokens.read(KEY, token, NOW) == CLAIMS
    assert access_tokens.read(OTHER, token, NOW) is None
    assert access_tokens.read(KEY, token[:-1] + ("A" if token[-1] != "A" else "B"), NOW) is None


def test_the_memory_is_bounded_and_has_no_junk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "_READ", {})
    monkeypatch.setattr(access_tokens, "_MOST_READ", 3)
    tokens = [access_tokens.issue(KEY, CLAIMS, NOW, LIFETIME) for _ in range(5)]
    for token in tokens:
        assert access_tokens.read(KEY, token, NOW) == CLAIMS
        assert access_tokens.read(KEY, token[:-3], NOW) is None
    assert list(access_tokens._READ) == [(KEY, token) for token in tokens[2:]]
    assert access_tokens.read(KEY, tokens[4], NOW + 2 * LIFETIME) is None
    assert access_tokens.read(KEY, tokens[0], NOW + 2 * LIFETIME) is None
    assert list(access_tokens._READ) == [(KEY, token) for token in tokens[2:4]]
