"""A wallet in this process, and where its key comes from.

In this order: the key file that was named, POTLUCK_WALLET_KEY, the keystore in the configuration
directory. A password comes from POTLUCK_WALLET_PASSWORD, from the file that `potluck up` wrote
beside a wallet of its own making, or from the person. Keys and passwords are in files of mode 0600,
in variables, or in nobody's sight: never in a command line, a log or a `repr`.
"""

import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

from coincurve import PrivateKey

from potluck.consumer.identity import keystore
from potluck.local.data_directory import config_directory
from potluck.local.durable_files import write_whole
from potluck.local.file_lock import turn
from potluck.local.private_files import check_private, keep_private
from potluck.model.error import BadSettings, InvalidInput, NotSignedIn
from potluck.wire.signing.signature import address_of, sign

KEY_VARIABLE = "POTLUCK_WALLET_KEY"
PASSWORD_VARIABLE = "POTLUCK_WALLET_PASSWORD"  # noqa: S105 - its name

Ask = Callable[[str], str]  # a question for the person, answered unseen

SHORTEST_PASSWORD = 8
_LONGEST_RAW = 80  # 64 digits, 0x, line breaks
_HEXADECIMAL = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class Wallet:
    """An address, and the key that signs for it. The key is not shown to anybody."""

    __slots__ = ("_key", "address")

    def __init__(self, key: bytes):
        self.address = address_of(key)
        self._key = key

    def sign(self, digest: bytes) -> str:
        return sign(self._key, digest)

    def __repr__(self) -> str:
        return f"Wallet({self.address})"


def keystore_path() -> Path:
    return config_directory() / "wallet.json"


def password_path() -> Path:
    return config_directory() / "wallet-password"


def is_known(key_file: Path | None = None) -> bool:
    """Whether there is a wallet to load."""
    return bool(key_file or os.environ.get(KEY_VARIABLE)) or keystore_path().exists()


def known_address() -> str | None:
    """Of the wallet that is configured, without its password; some keystores do not say."""
    if os.environ.get(KEY_VARIABLE):
        return load().address
    return keystore.named_address(keystore_path())


def opens_unattended() -> bool:
    """Whether the wallet that is configured takes no person to open."""
    said = os.environ.get(KEY_VARIABLE) or os.environ.get(PASSWORD_VARIABLE)
    return bool(said) or password_path().exists()


def load(key_file: Path | None = None, ask: Ask | None = None) -> Wallet:
    """The wallet that is configured. Without `ask`, only what needs no person is tried."""
    if key_file is not None:
        return _from_file(key_file, ask)
    if os.environ.get(KEY_VARIABLE):
        return _from_text(os.environ[KEY_VARIABLE], KEY_VARIABLE)
    if keystore_path().exists():
        return _from_keystore(keystore_path(), ask)
    raise NotSignedIn(
        "There is no wallet here yet.",
        f"`potluck login URL` makes one; --key-file or {KEY_VARIABLE} names one that you have.",
    )


def make(password: str) -> Wallet:
    """A new wallet in the configuration directory, which must not have one yet."""
    check_password(password)
    return _make(password, is_kept=False)


def check_password(password: str) -> None:
    """Not too short: it is all that protects the file."""
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidInput(
            f"A password of less than {SHORTEST_PASSWORD} characters is guessed in no time.",
            "A few random words are easy to keep and hard to guess.",
        )


def make_unattended() -> Wallet:
    """The same without a person: the password is chance, in a file beside it."""
    return _make(secrets.token_urlsafe(32), is_kept=True)


def _make(password: str, is_kept: bool) -> Wallet:
    key = PrivateKey().secret
    directory = config_directory()
    with turn(directory / "wallet.lock"):
        if keystore_path().exists():
            raise BadSettings(
                f"There is a wallet in {keystore_path()} already.", "Use it, or move it away."
            )
        try:
            if is_kept:
                write_whole(password_path(), password.encode())
            else:
                password_path().unlink(missing_ok=True)
            write_whole(keystore_path(), keystore.locked(key, password))
        except OSError as error:
            raise BadSettings(
                f"The wallet can not be written to {directory}: {error.strerror}.",
                "Make it writable, or name another directory with POTLUCK_CONFIG_DIR.",
            ) from error
    return Wallet(key)


def _from_file(path: Path, ask: Ask | None) -> Wallet:
    """A keystore, or the key itself; the latter only if nobody else can read it."""
    try:
        with path.open("rb") as file:
            begins = file.read(_LONGEST_RAW + 1)
    except OSError as error:
        raise BadSettings(
            f"The key file {path} can not be read: {error.strerror}.", "Check its name and owner."
        ) from error
    if begins.lstrip().startswith(b"{"):
        return _from_keystore(path, ask)
    found = _from_text(begins.decode("ascii", "replace"), str(path))
    check_private(path)
    return found


def _from_text(text: str, source: str) -> Wallet:
    found = _HEXADECIMAL.fullmatch(text.strip())
    try:
        return Wallet(bytes.fromhex(found[1] if found else ""))
    except ValueError as error:
        raise BadSettings(
            f"What {source} holds is not a private key.", "It is 64 hexadecimal digits."
        ) from error


def _from_keystore(path: Path, ask: Ask | None) -> Wallet:
    try:
        return Wallet(_unlocked(path, ask))
    except ValueError as error:
        raise BadSettings(f"The keystore {path} holds no key.", "Export it again.") from error


def _unlocked(path: Path, ask: Ask | None) -> bytes:
    kept = None if os.environ.get(PASSWORD_VARIABLE) else _kept_password(path)
    if kept is None:
        return keystore.unlocked(path, _password(path, ask))
    try:
        return keystore.unlocked(path, kept)
    except NotSignedIn:
        if ask is None:
            raise
    # It was kept for another wallet, which somebody has replaced by their own.
    return keystore.unlocked(path, _password(path, ask))


def _kept_password(path: Path) -> str | None:
    """What `potluck up` wrote beside the wallet that it made."""
    if path != keystore_path():
        return None
    try:
        keep_private(password_path())
        return password_path().read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"The password in {password_path()} can not be read: {error}.", "Check who owns it."
        ) from error


def _password(path: Path, ask: Ask | None) -> str:
    said = os.environ.get(PASSWORD_VARIABLE)
    if said:
        return said
    if ask is not None:
        return ask(f"Password of the wallet {path}: ")
    raise NotSignedIn(
        f"The wallet {path} needs its password.", f"Give it with {PASSWORD_VARIABLE}."
    )
