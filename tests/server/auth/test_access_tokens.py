"""A token that was read before is worth no more than one that was not."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from potluck.model.account import Credential
from potluck.server.auth import access_tokens
from potluck.server.auth.access_tokens import Claims
from potluck.store.new_ids import new_account_id

KEY, OTHER = b"k" * 32, b"o" * 32
CLAIMS = Claims(new_account_id(), Credential.SESSION, "session_" + new_account_id()[8:])
# How long after its end a token is still taken, in whole seconds.
LEEWAY_SECONDS = 5


def test_a_token_that_was_read_before_ends_when_it_says() -> None:
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=60)
    ends = at + timedelta(seconds=61 - LEEWAY_SECONDS)  # a second from now at most, all in all
    token = access_tokens.issue(KEY, CLAIMS, at, ends - at)
    until = ends.timestamp() + LEEWAY_SECONDS
    while time.time() < until - 0.05:
        assert access_tokens.read(KEY, token) == CLAIMS
        time.sleep(0.02)
    time.sleep(max(0.0, until - time.time()) + 0.01)
    assert access_tokens.read(KEY, token) is None
    assert access_tokens.read(KEY, token) is None


def test_a_token_that_was_read_before_is_another_with_another_key_or_letter() -> None:
    token = access_tokens.issue(KEY, CLAIMS, datetime.now(UTC), timedelta(minutes=5))
    assert access_tokens.read(KEY, token) == CLAIMS
    assert access_tokens.read(OTHER, token) is None
    assert access_tokens.read(KEY, token[:-1] + ("A" if token[-1] != "A" else "B")) is None


def test_what_is_remembered_is_bounded_and_none_of_it_is_junk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_tokens, "_READ", {})
    monkeypatch.setattr(access_tokens, "_MOST_READ", 3)
    now = datetime.now(UTC)
    tokens = [access_tokens.issue(KEY, CLAIMS, now, timedelta(minutes=5)) for _ in range(5)]
    for token in tokens:
        assert access_tokens.read(KEY, token) == CLAIMS
        assert access_tokens.read(KEY, token[:-3]) is None
    assert list(access_tokens._READ) == [(KEY, token) for token in tokens[2:]]
