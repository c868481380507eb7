"""The client's profile: private, whole, and never a token for the wrong server."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from potluck.consumer import Potluck
from potluck.consumer.identity.profile import (
    Profile,
    Session,
    choose_url,
    load_profile,
    load_profile_for,
    profile_path,
    save_profile,
)
from potluck.model.error import BadSettings, NotSignedIn

URL = "http://127.0.0.1:8470"
SESSION = Session("0xAb", "access-1", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "refresh-1")
HERE = Profile(URL, SESSION)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("POTLUCK_URL", raising=False)
    monkeypatch.delenv("POTLUCK_TOKEN", raising=False)
    return tmp_path / "config"


@pytest.mark.parametrize(
    "profile",
    [HERE, Profile(URL), Profile(URL, SESSION, "/etc/ca.pem", 'C:\\keys\\"mine".json')],
    ids=["signed in", "signed out", "with files"],
)
def test_a_saved_profile_is_loaded(config: Path, profile: Profile) -> None:
    save_profile(profile)
    assert load_profile() == profile
    assert stat.S_IMODE(profile_path().stat().st_mode) == 0o600
    assert [file.name for file in config.iterdir()] == ["profile.toml"]


def test_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(HERE)
    assert choose_url() == URL
    monkeypatch.setenv("POTLUCK_URL", "https://potluck.example/")
    assert choose_url() == "https://potluck.example"
    assert choose_url("http://127.0.0.1:1/") == "http://127.0.0.1:1"
    with pytest.raises(BadSettings):
        choose_url("")  # a variable of somebody's shell that is not set


def test_the_session_of_one_server_is_not_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(HERE)
    assert load_profile_for(URL) == HERE
    with pytest.raises(NotSignedIn, match="not signed in to http://127"):
        Potluck("http://127.0.0.1:9999")
    monkeypatch.setenv("POTLUCK_URL", "http://127.0.0.1:9999")
    with pytest.raises(NotSignedIn):
        Potluck()
    Potluck(URL + "/").close()


def test_without_a_profile_the_next_step_is_named() -> None:
    with pytest.raises(BadSettings) as raised:
        Potluck()
    assert "potluck up" in raised.value.hint and "potluck login" in raised.value.hint


@pytest.mark.parametrize(
    "content",
    [b"url = ", b"\xff", b"\x00", b'url = "http://x"\nrefresh_token = "r"\n'],
    ids=["half", "not UTF-8", "binary", "a part of a session"],
)
def test_a_damaged_profile_is_named(config: Path, content: bytes) -> None:
    config.mkdir()
    (config / "profile.toml").write_bytes(content)
    with pytest.raises(BadSettings, match="damaged") as raised:
        Potluck()
    assert "potluck login" in raised.value.hint


def test_a_profile_from_before_wallets_is_signed_out(config: Path) -> None:
    config.mkdir()
    (config / "profile.toml").write_text(f'url = "{URL}"\ntoken = "potluck_old"\n')
    with pytest.raises(NotSignedIn, match="not signed in"):
        Potluck()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8470",
        "ftp://x",
        "http://",
        "http://x:y",
        "http://u:p@x",
        "http://x/?q",
        "https://x/potluck",
        "http:// x\n",
    ],
)
def test_an_impossible_address_is_refused(url: str) -> None:
    with pytest.raises(BadSettings, match="is not a server address"):
        Potluck(url)


@pytest.mark.parametrize(
    ("typed_url", "spelled"),
    [
        ("HTTPS://Pool.Example:443/", "https://pool.example"),
        ("http://LOCALHOST:80", "http://localhost"),
        ("http://[::1]:8470/", "http://[::1]:8470"),
        ("https://[2001:DB8::1]", "https://[2001:db8::1]"),
    ],
)
def test_an_address_has_one_spelling(typed_url: str, spelled: str) -> None:
    save_profile(Profile(typed_url, SESSION, "/the/pin.pem"))
    saved = load_profile_for(choose_url(typed_url))
    assert saved is not None and (saved.url, saved.ca_file) == (spelled, "/the/pin.pem")


@pytest.mark.parametrize("url", ["http://pool.example", "http://192.0.2.1:8470", "HTTP://10.0.0.1"])
def test_secrets_are_not_sent_unencrypted_to_another_machine(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POTLUCK_TOKEN", "potluck_key_1")
    with pytest.raises(BadSettings, match="another machine"):
        Potluck(url)
    monkeypatch.setenv("POTLUCK_URL", url)
    with pytest.raises(BadSettings, match="another machine"):
        Potluck()


def test_a_token_with_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POTLUCK_TOKEN", "a\r\nb")
    with pytest.raises(BadSettings, match="token"):
        Potluck("http://127.0.0.1:1")
