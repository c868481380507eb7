"""The client's profile: private, whole, and never a token for the wrong server."""

from pathlib import Path

import pytest

from potluck.consumer.profile import Profile, load_profile, profile_path, save_profile
from potluck.model.error import BadSettings, NotSignedIn

HERE = Profile("http://127.0.0.1:8470", "tok-en_1")


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("POTLUCK_URL", raising=False)
    monkeypatch.delenv("POTLUCK_TOKEN", raising=False)
    return tmp_path / "config"


def test_what_was_saved_is_loaded(config: Path) -> None:
    save_profile(HERE)
    assert load_profile() == HERE
    assert profile_path().stat().st_mode & 0o777 == 0o600
    assert [file.name for file in config.iterdir()] == ["profile.toml"]


def test_quotes_and_backslashes_survive() -> None:
    odd = Profile("http://127.0.0.1:1", 'a"b\\c')
    save_profile(odd)
    assert load_profile() == odd


def test_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(HERE)
    monkeypatch.setenv("POTLUCK_URL", "https://potluck.example/")
    monkeypatch.setenv("POTLUCK_TOKEN", "other")
    assert load_profile() == Profile("https://potluck.example", "other")


def test_the_token_of_one_server_is_not_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(HERE)
    with pytest.raises(NotSignedIn):
        load_profile("http://127.0.0.1:9999")
    monkeypatch.setenv("POTLUCK_URL", "http://127.0.0.1:9999")
    with pytest.raises(NotSignedIn):
        load_profile()
    assert load_profile("http://127.0.0.1:8470/") == HERE


def test_without_a_profile_the_next_step_is_named() -> None:
    with pytest.raises(BadSettings) as raised:
        load_profile()
    assert "potluck up" in raised.value.hint


@pytest.mark.parametrize(
    "content", [b"url = ", b"\xff", b"\x00"], ids=["half", "not UTF-8", "binary"]
)
def test_a_damaged_profile_is_named(config: Path, content: bytes) -> None:
    config.mkdir()
    (config / "profile.toml").write_bytes(content)
    with pytest.raises(BadSettings, match="damaged"):
        load_profile()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8470",
        "ftp://x",
        "http://",
        "http://x:y",
        "http://u:p@x",
        "http://x/?q",
        "http:// x\n",
    ],
)
def test_an_impossible_address_is_refused(url: str) -> None:
    with pytest.raises(BadSettings, match="is not the address of a server"):
        load_profile(url)


def test_a_token_with_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POTLUCK_TOKEN", "a\r\nb")
    with pytest.raises(BadSettings, match="token"):
        load_profile("http://127.0.0.1:1")
