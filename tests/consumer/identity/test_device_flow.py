"""Polling for an approval: at the server's pace, slower when told so, and not for ever."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.device_flow import await_approval
from potluck.model.error import AccessDenied, AuthorizationPending, CodeExpired, SlowDown
from potluck.model.ids import AccountId
from potluck.wire.identity import TerminalAsked, Tokens
from tests.consumer.fake_server import FakeServer, hang_up, refuses, says

ASKED = TerminalAsked("d" * 20, "ABCD-EFGH", "http://x/device", "http://x/device#ABCD", 60, 2)
PENDING = refuses(AuthorizationPending("Not yet."))
TOKENS = Tokens("access", 900, "refresh", AccountId("account_1"), "0xAb")
PATH = "/v1/auth/device/token"


@pytest.fixture
def server(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(tmp_path))
    with FakeServer().running() as fake:
        yield fake


def test_polling_waits_the_interval_and_five_seconds_more_after_slow_down(
    server: FakeServer,
) -> None:
    slow = refuses(SlowDown("Too often."))
    server.plays(PATH, PENDING, slow, PENDING, hang_up(), says(TOKENS))
    waits: list[float] = []
    with closing(connect_anonymously(server.url)) as line:
        assert await_approval(line, ASKED, waits.append) == TOKENS
    assert waits == [2, 2, 7, 7, 14]


def test_polling_stops_when_the_code_expires(server: FakeServer) -> None:
    server.plays(PATH, PENDING)
    waits: list[float] = []
    with closing(connect_anonymously(server.url)) as line, pytest.raises(CodeExpired):
        await_approval(line, ASKED, waits.append)
    assert 60 <= sum(waits) <= 64


def test_a_refusal_is_not_asked_about_again(server: FakeServer) -> None:
    server.plays(PATH, PENDING, refuses(AccessDenied("No.")))
    with closing(connect_anonymously(server.url)) as line, pytest.raises(AccessDenied):
        await_approval(line, ASKED, lambda _: None)
    assert len(server.requests) == 2
