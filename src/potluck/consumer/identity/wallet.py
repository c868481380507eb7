"""The user's wallet, and the sources of its key.

In this order: the given key file, POTLUCK_WALLET_KEY, the keystore in the configuration directory.
A password comes from POTLUCK_WALLET_PASSWORD, from the file that `potluck up` wrote beside a wallet
that it created, or from a prompt. Keys and passwords are in files of mode 0600 or in variables,
never in a command line, a log or a `repr`.
"""

import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from potluck.consumer.identity import keystore
from potluck.local.data_directory import config_directory
from potluck.local.durable_files import check_private, keep_private, write_atomically
from potluck.local.file_lock import hold_lock
from potluck.model.error import BadSettings, InvalidInput, NotSignedIn
from potluck.wire.signing.signature import address_of, sign

KEY_VARIABLE = "POTLUCK_WALLET_KEY"
PASSWORD_VARIABLE = "POTLUCK_WALLET_PASSWORD"  # noqa: S105 - its name

Ask = Callable[[str], str]  # a prompt whose input is not shown

SHORTEST_PASSWORD = 8
_LONGEST_RAW = 80  # 64 digits, 0x, line breaks
_HEXADECIMAL = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class Wallet:
    """An address and its private key, which is never shown."""

    __slots__ = ("_key", "address")

    def __init__(self, key: bytes):
        self.address = address_of(key)
        self._key = key

    def sign(self, digest: bytes) -> str:
        return sign(self._key, digest)

    def reveal_key(self) -> bytes:
        """For signing transactions. The caller neither stores nor shows it."""
        return self._key

    def __repr__(self) -> str:
        return f"Wallet({self.address})"


def keystore_path() -> Path:
    return config_directory() / "wallet.json"


def password_path() -> Path:
    return config_directory() / "wallet-password"


def has_wallet(key_file: Path | None = None) -> bool:
    """Whether there is a wallet to load."""
    return bool(key_file or os.environ.get(KEY_VARIABLE)) or keystore_path().exists()


def find_address() -> str | None:
    """The address of the configured wallet, without its password; some keystores lack it."""
    if os.environ.get(KEY_VARIABLE):
        return load().address
    return keystore.read_address(keystore_path())


def can_open_unattended() -> bool:
    """Whether the configured wallet opens without a prompt."""
    secret = os.environ.get(KEY_VARIABLE) or os.environ.get(PASSWORD_VARIABLE)
    return bool(secret) or password_path().exists()


def load(key_file: Path | None = None, ask: Ask | None = None) -> Wallet:
    """Loads the given or configured wallet; without `ask` it never prompts."""
    if key_file is not None:
        return _from_file(key_file, ask)
    if os.environ.get(KEY_VARIABLE):
        return _from_text(os.environ[KEY_VARIABLE], KEY_VARIABLE)
    if keystore_path().exists():
        return _from_keystore(keystore_path(), ask)
    raise NotSignedIn(
        "There is no wallet here yet.",
        f"`potluck login URL` creates one; use one that you have with --key-file or"
        f" {KEY_VARIABLE}.",
    )


def make(password: str) -> Wallet:
    """Creates a wallet in the configuration directory, which must not have one yet."""
    check_password(password)
    return _make(password, saves_password=False)


def check_password(password: str) -> None:
    """Refuses short passwords: nothing else protects the file."""
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidInput(
            f"A password of less than {SHORTEST_PASSWORD} characters is too easy to guess.",
            "A few random words are easy to remember and hard to guess.",
        )


def make_unattended() -> Wallet:
    """Creates a wallet with a random password, which is saved in a file beside it."""
    return _make(secrets.token_urlsafe(32), saves_password=True)


def _make(password: str, saves_password: bool) -> Wallet:
    from coincurve import PrivateKey

    key = PrivateKey().secret
    directory = config_directory()
    with hold_lock(directory / "wallet.lock"):
        if keystore_path().exists():
            raise BadSettings(
                f"There is already a wallet in {keystore_path()}.", "Use it, or move it away."
            )
        try:
            if saves_password:
                write_atomically(password_path(), password.encode())
            else:
                password_path().unlink(missing_ok=True)
            write_atomically(keystore_path(), keystore.encrypt_key(key, password))
        except OSError as error:
            raise BadSettings(
                f"The wallet cannot be written to {directory}: {error.strerror}.",
                "Make it writable, or choose another directory with POTLUCK_CONFIG_DIR.",
            ) from error
    return Wallet(key)


def _from_file(path: Path, ask: Ask | None) -> Wallet:
    """Reads a keystore, or a plain key from a file that other users cannot read."""
    try:
        with path.open("rb") as file:
            head = file.read(_LONGEST_RAW + 1)
    except OSError as error:
        raise BadSettings(
            f"The key file {path} cannot be read: {error.strerror}.", "Check its name and owner."
        ) from error
    if head.lstrip().startswith(b"{"):
        return _from_keystore(path, ask)
    wallet = _from_text(head.decode("ascii", "replace"), str(path))
    check_private(path)
    return wallet


def _from_text(text: str, source: str) -> Wallet:
    match = _HEXADECIMAL.fullmatch(text.strip())
    try:
        return Wallet(bytes.fromhex(match[1] if match else ""))
    except ValueError as error:
        raise BadSettings(
            f"{source} does not contain a private key.", "A key has 64 hexadecimal digits."
        ) from error


def _from_keystore(path: Path, ask: Ask | None) -> Wallet:
    try:
        return Wallet(_unlocked(path, ask))
    except ValueError as error:
        raise BadSettings(f"The keystore {path} has no valid key.", "Export it again.") from error


def _unlocked(path: Path, ask: Ask | None) -> bytes:
    saved = None if os.environ.get(PASSWORD_VARIABLE) else _saved_password(path)
    if saved is None:
        return keystore.decrypt_key(path, _password(path, ask))
    try:
        return keystore.decrypt_key(path, saved)
    except NotSignedIn:
        if ask is None:
            raise
    # It was saved for another wallet, which the user has replaced.
    return keystore.decrypt_key(path, _password(path, ask))


def _saved_password(path: Path) -> str | None:
    """The password that `potluck up` wrote beside the wallet that it created."""
    if path != keystore_path():
        return None
    try:
        keep_private(password_path())
        return password_path().read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"The password in {password_path()} cannot be read: {error}.", "Check its owner."
        ) from error


def _password(path: Path, ask: Ask | None) -> str:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password:
        return password
    if ask is not None:
        return ask(f"Password of the wallet {path}: ")
    raise NotSignedIn(f"The wallet {path} needs its password.", f"Set {PASSWORD_VARIABLE}.")
