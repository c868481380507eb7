"""Answers that are not the server's own: a proxy's page, another program."""

import pytest

from potluck.model.error import (
    BadSettings,
    Conflict,
    Forbidden,
    InvalidInput,
    NotSignedIn,
    StaleLease,
    TooLarge,
    Unavailable,
)
from potluck.wire.codec import encode_json
from potluck.wire.problem import to_problem
from potluck.wire.response import checked_redirect, decode_response, error_of_response

URL = "http://127.0.0.1:8470"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, Forbidden),
        (408, Unavailable),
        (413, TooLarge),
        (500, Unavailable),
        (503, Unavailable),
        (524, Unavailable),
    ],
)
def test_statuses_of_a_proxy_are_understood(status: int, kind: type[Exception]) -> None:
    raised_error = error_of_response(status, b"<html>nginx</html>", URL)
    assert type(raised_error) is kind
    assert str(status) in raised_error.detail


@pytest.mark.parametrize("status", [302, 400, 409, 418])
def test_a_refusal_of_the_content_is_believed_of_the_server_only(status: int) -> None:
    """On its word a provider drops an outcome, so a proxy's word must not count for it."""
    raised_error = error_of_response(status, b"<html>nginx</html>", URL)
    assert isinstance(raised_error, BadSettings)
    assert not isinstance(raised_error, InvalidInput | Conflict)


def test_an_ended_session_is_believed_only_from_the_server_itself() -> None:
    """On its word a provider ends, and a session is signed in anew."""
    assert not isinstance(error_of_response(401, b"<html>nginx</html>", URL), NotSignedIn)
    raised_error = error_of_response(401, encode_json(to_problem(NotSignedIn("It is over."))), URL)
    assert type(raised_error) is NotSignedIn


def test_the_servers_own_error_is_itself_again() -> None:
    raised_error = error_of_response(409, encode_json(to_problem(StaleLease("It is over."))), URL)
    assert type(raised_error) is StaleLease and raised_error.detail == "It is over."


@pytest.mark.parametrize(
    ("url", "place", "is_followed"),
    [
        ("https://pool.example.org", "https://store.example.org/x?key=1", True),
        ("https://pool.example.org", "http://store.example.org/x?key=1", False),
        ("http://127.0.0.1:8470", "http://127.0.0.1:9000/x", True),
        ("http://127.0.0.1:8470", "https://store.example.org/x", True),
        ("http://127.0.0.1:8470", "file:///etc/passwd", False),
        ("http://127.0.0.1:8470", "", False),
    ],
)
def test_https_never_redirects_to_http(url: str, place: str, is_followed: bool) -> None:
    if is_followed:
        assert checked_redirect(place, url) == place
        return
    with pytest.raises(BadSettings, match="redirects to an address"):
        checked_redirect(place, url)


def test_a_success_of_another_shape_names_the_version() -> None:
    with pytest.raises(BadSettings, match="does not match this version") as error_info:
        decode_response(b"[]", dict[str, str], URL)
    assert "potluck version" in error_info.value.hint
