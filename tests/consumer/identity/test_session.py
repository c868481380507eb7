"""A session in the profile: renewed before its end and after a refusal, by one at a time."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity import wallet
from potluck.consumer.identity.profile import Profile, Session, load_profile, save_profile
from potluck.consumer.identity.sign_in import sign_in
from potluck.local.child_process import SECRET_VARIABLES
from potluck.model.account import Credential, Role
from potluck.model.error import BadSettings, NotSignedIn, ServerUnreachable
from potluck.model.ids import AccountId
from potluck.wire.identity import Challenge, Login, Me, Refresh, Tokens
from potluck.wire.signing.sign_in_message import read
from potluck.wire.signing.signature import recover, text_digest
from tests.consumer.fake_server import FakeServer, Scene, hang_up, refuses, says

ME = Me(AccountId("account_1"), "0xAb", [Role.CONSUMER], Credential.SESSION, [], 0, 0)
NO = refuses(NotSignedIn("No."))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        fake.plays("/v1/me", says(ME))
        yield fake


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("POTLUCK_URL", *SECRET_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "config"


def save(server: FakeServer, seconds_left: float = 600, address: str = "0xAb") -> None:
    ends = datetime.now(UTC) + timedelta(seconds=seconds_left)
    save_profile(Profile(server.url, Session(address, "access-1", ends, "refresh-1")))


def tokens(number: int, address: str = "0xAb") -> Scene:
    account = AccountId("account_1")
    return says(Tokens(f"access-{number}", 600, f"refresh-{number}", account, address))


def asked(server: FakeServer) -> list[str]:
    """Paths and the last word of each Authorization header."""
    return [
        f"{request.path} {request.headers.get('Authorization', 'nobody').split()[-1]}"
        for request in server.requests
    ]


def test_a_token_that_lasts_is_used_as_it_is(server: FakeServer) -> None:
    save(server)
    with Potluck() as potluck:
        potluck.account.me()
        potluck.account.me()
    assert asked(server) == ["/v1/me access-1"] * 2


def test_a_token_about_to_end_is_renewed_first_and_the_new_one_is_kept(server: FakeServer) -> None:
    save(server, seconds_left=5)
    server.plays("/v1/auth/refresh", tokens(2), NO)
    for _ in range(2):
        with Potluck() as potluck:
            potluck.account.me()
    assert asked(server) == ["/v1/auth/refresh nobody", "/v1/me access-2", "/v1/me access-2"]
    assert msgspec.json.decode(server.requests[0].body, type=Refresh).refresh_token == "refresh-1"
    saved = load_profile()
    assert saved is not None and saved.session is not None
    assert saved.session.refresh_token == "refresh-2"


def test_a_refused_token_is_renewed_once(server: FakeServer) -> None:
    save(server)
    server.plays("/v1/me", NO, says(ME))
    server.plays("/v1/auth/refresh", tokens(2), NO)
    with Potluck() as potluck:
        assert potluck.account.me() == ME
    assert asked(server) == ["/v1/me access-1", "/v1/auth/refresh nobody", "/v1/me access-2"]


def test_a_key_in_the_variable_that_is_refused_is_named(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POTLUCK_TOKEN", "potluck_key_old")
    server.plays("/v1/me", NO)
    with Potluck(server.url) as potluck, pytest.raises(NotSignedIn) as raised:
        potluck.account.me()
    assert "The key in POTLUCK_TOKEN is not accepted." in raised.value.detail
    assert "unset POTLUCK_TOKEN" in raised.value.hint


def test_a_new_token_that_is_refused_too_is_the_end_of_it(server: FakeServer) -> None:
    save(server)
    server.plays("/v1/me", NO)
    server.plays("/v1/auth/refresh", tokens(2), tokens(3))
    with Potluck() as potluck, pytest.raises(NotSignedIn):
        potluck.account.me()
    assert [line.split()[0] for line in asked(server)].count("/v1/me") == 2


def test_tokens_of_another_process_are_used(server: FakeServer) -> None:
    save(server)
    server.plays("/v1/me", says(ME), NO, says(ME))
    with Potluck() as potluck:
        potluck.account.me()
        ends = datetime.now(UTC) + timedelta(seconds=600)
        save_profile(Profile(server.url, Session("0xAb", "access-7", ends, "refresh-7")))
        potluck.account.me()
    assert "/v1/auth/refresh" not in " ".join(asked(server))
    assert asked(server)[-1] == "/v1/me access-7"


def test_threads_of_one_process_refresh_once(server: FakeServer) -> None:
    save(server, seconds_left=5)
    server.plays("/v1/auth/refresh", tokens(2), NO)
    failed: list[BaseException] = []

    def call() -> None:
        try:
            with Potluck() as potluck:
                potluck.account.me()
        except BaseException as error:  # noqa: BLE001 - the test looks at them
            failed.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert asked(server).count("/v1/auth/refresh nobody") == 1


def test_a_lost_answer_to_a_refresh_is_not_asked_for_again(server: FakeServer) -> None:
    """The server counts a refresh token that comes twice as stolen."""
    save(server, seconds_left=5)
    server.plays("/v1/auth/refresh", hang_up())
    with Potluck() as potluck, pytest.raises(ServerUnreachable):
        potluck.account.log_out()
    assert asked(server) == ["/v1/auth/refresh nobody"]


def test_without_a_wallet_the_person_is_asked_to_sign_in_again(server: FakeServer) -> None:
    save(server, seconds_left=5)
    server.plays("/v1/auth/refresh", NO)
    with Potluck() as potluck, pytest.raises(NotSignedIn, match="has ended") as raised:
        potluck.account.me()
    assert f"potluck login {server.url}" in raised.value.hint


@pytest.mark.parametrize("is_theirs", [True, False], ids=["its own wallet", "another wallet"])
def test_a_wallet_that_needs_no_person_signs_in_again(server: FakeServer, is_theirs: bool) -> None:
    own_wallet = wallet.make_unattended()
    address = own_wallet.address if is_theirs else "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
    save(server, seconds_left=5, address=address)
    server.plays("/v1/auth/refresh", NO)
    later = datetime.now(UTC) + timedelta(minutes=5)
    server.plays("/v1/auth/challenge", says(Challenge("n0nce" * 4, later, [server.url], [1])))
    server.plays("/v1/auth/login", tokens(5, address))
    with Potluck() as potluck:
        if not is_theirs:
            with pytest.raises(NotSignedIn, match="has ended"):
                potluck.account.me()
            return
        potluck.account.me()
    sent = next(request for request in server.requests if request.path == "/v1/auth/login")
    login = msgspec.json.decode(sent.body, type=Login)
    assert read(login.message).uri == server.url
    signature = bytes.fromhex(login.signature[2:])
    assert recover(text_digest(login.message), signature) == own_wallet.address
    assert asked(server)[-1] == "/v1/me access-5"


def test_a_challenge_of_another_server_is_not_signed(server: FakeServer) -> None:
    """A server between us and the real one could hand on the real one's challenge."""
    later = datetime.now(UTC) + timedelta(minutes=5)
    origins = ["https://potluck.example.org"]
    server.plays("/v1/auth/challenge", says(Challenge("n0nce" * 4, later, origins, [1])))
    line = connect_anonymously(server.url)
    with pytest.raises(BadSettings, match="uses the address https://potluck"):
        sign_in(line, wallet.Wallet(b"\1" * 32))
    line.close()
    assert [request.path for request in server.requests] == ["/v1/auth/challenge"]


def test_a_wrong_clock_is_named(server: FakeServer) -> None:
    past = datetime.now(UTC) - timedelta(minutes=7)
    server.plays("/v1/auth/challenge", says(Challenge("n0nce" * 4, past, [server.url], [1])))
    server.plays("/v1/auth/login", NO)
    line = connect_anonymously(server.url)
    with pytest.raises(BadSettings, match="clock"):
        sign_in(line, wallet.Wallet(b"\1" * 32))
    line.close()
