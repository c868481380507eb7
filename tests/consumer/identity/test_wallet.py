"""The wallet: found where it is said to be, encrypted, private, and never shown."""

import json
import secrets
import stat
import time
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Literal

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from potluck.consumer.identity import keystore, wallet
from potluck.local.child_process import SECRET_VARIABLES
from potluck.model.error import BadSettings, NotSignedIn
from potluck.wire.signing.signature import text_digest

KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "config"
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(directory))
    for name in SECRET_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return directory


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def answering(text: str) -> Callable[[str], str]:
    return lambda question: text


def key_file(directory: Path, content: str | bytes, permissions: int = 0o600) -> Path:
    path = directory / f"key-{secrets.token_hex(4)}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(permissions)
    return path


def test_a_made_wallet_opens_with_its_password_and_no_other(config: Path) -> None:
    new_wallet = wallet.make("correct horse")
    assert wallet.load(ask=answering("correct horse")).address == new_wallet.address
    with pytest.raises(NotSignedIn, match="is wrong"):
        wallet.load(ask=answering("correct house"))
    assert mode(config) == 0o700
    assert mode(wallet.keystore_path()) == 0o600
    assert not wallet.password_path().exists()


def test_a_keystore_is_made_in_less_than_a_second_and_opens_in_other_tools() -> None:
    new_wallet = wallet.make("correct horse")
    started = time.process_time()
    wallet.load(ask=answering("correct horse"))
    assert time.process_time() - started < 2  # half of it is the import
    content = json.loads(wallet.keystore_path().read_text())
    assert content["crypto"]["kdfparams"]["n"] >= 2**16
    assert Account.from_key(Account.decrypt(content, "correct horse")).address == new_wallet.address


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_other_tools_keystores_are_read(tmp_path: Path, kdf: Literal["scrypt", "pbkdf2"]) -> None:
    content = Account.encrypt(bytes.fromhex(KEY), "theirs", kdf, 2**10)
    path = key_file(tmp_path, json.dumps(content), 0o644)
    assert wallet.load(path, answering("theirs")).address == ADDRESS
    assert keystore.read_address(path) == ADDRESS


def test_a_signature_equals_that_of_other_wallets() -> None:
    own_wallet = wallet.Wallet(bytes.fromhex(KEY))
    other_signed = Account.from_key(KEY).sign_message(encode_defunct(text="hello"))
    assert own_wallet.sign(text_digest("hello")) == "0x" + other_signed.signature.hex()


@pytest.mark.parametrize("spelled", [KEY, f"0x{KEY}\n", KEY.upper()])
def test_a_raw_key_in_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    assert wallet.load(key_file(tmp_path, spelled)).address == ADDRESS
    monkeypatch.setenv("POTLUCK_WALLET_KEY", spelled)
    assert wallet.has_wallet()
    assert wallet.load().address == ADDRESS


@pytest.mark.parametrize("permissions", [0o640, 0o604, 0o660])
def test_a_raw_key_that_others_can_read_is_refused(tmp_path: Path, permissions: int) -> None:
    with pytest.raises(BadSettings, match="can read") as raised:
        wallet.load(key_file(tmp_path, KEY, permissions))
    assert "chmod 600" in raised.value.hint


@pytest.mark.parametrize(
    "content",
    [
        *("", "00" * 32, "ff" * 32, KEY[:-1], KEY + "0", "not a key", b"\xff\xfe"),
        *("{", "{}", '{"version": 3}', '{"version": 4}', '{"version": 3, "crypto": 7}'),
        '{"version": 3, "crypto": {"kdf": "md5", "kdfparams": {}}}',
    ],
)
def test_an_invalid_key_is_reported_and_not_shown(tmp_path: Path, content: str | bytes) -> None:
    path = key_file(tmp_path, content)
    with pytest.raises(BadSettings) as raised:
        wallet.load(path, answering("x"))
    assert str(path) in raised.value.detail
    assert raised.value.hint
    assert KEY[:-1] not in raised.value.detail


def test_without_a_person_only_what_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not wallet.has_wallet()
    with pytest.raises(NotSignedIn, match="no wallet here"):
        wallet.load()
    new_wallet = wallet.make("secret word")
    with pytest.raises(NotSignedIn, match="needs its password"):
        wallet.load()
    monkeypatch.setenv("POTLUCK_WALLET_PASSWORD", "secret word")
    assert wallet.load().address == new_wallet.address


def test_an_unattended_wallet_opens_by_itself(config: Path) -> None:
    new_wallet = wallet.make_unattended()
    assert wallet.load().address == new_wallet.address
    assert mode(wallet.password_path()) == 0o600
    assert len(wallet.password_path().read_text()) >= 32
    assert sorted(path.name for path in config.iterdir()) == [
        "wallet-password",
        "wallet.json",
        "wallet.lock",
    ]


def test_a_password_that_was_kept_for_another_wallet_is_not_the_last_word() -> None:
    wallet.make_unattended()
    own_keystore = keystore.encrypt_key(bytes.fromhex(KEY), "my own words")
    wallet.keystore_path().write_bytes(own_keystore)
    with pytest.raises(NotSignedIn, match="is wrong"):
        wallet.load()
    assert wallet.load(ask=answering("my own words")).address == ADDRESS


def test_a_wallet_is_never_overwritten() -> None:
    new_wallet = wallet.make_unattended()
    for make_wallet in (wallet.make_unattended, lambda: wallet.make("another one")):
        with pytest.raises(BadSettings, match="already"):
            make_wallet()
    assert wallet.load().address == new_wallet.address


def test_concurrent_processes_create_one_wallet() -> None:
    def attempt(_: int) -> str | None:
        try:
            return wallet.make_unattended().address
        except BadSettings:
            return None

    with ThreadPool(4) as pool:
        addresses = [address for address in pool.map(attempt, range(4)) if address]
    assert addresses == [wallet.load().address]


def test_the_key_is_not_shown() -> None:
    wallet_text = f"{wallet.Wallet(bytes.fromhex(KEY))!r}"
    assert wallet_text == f"Wallet({ADDRESS})"
