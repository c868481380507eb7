"""Where the passphrase or the key of an encrypted backup comes from."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.terminal.prompt import ask_hidden
from potluck.model.error import BadSettings

if TYPE_CHECKING:
    from potluck.server.backup.encryption import BackupSecret

_VARIABLE = "POTLUCK_BACKUP_PASSPHRASE"
_SHORTEST = 8

BackupKeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="A file with a key of 64 hexadecimal digits, instead of a passphrase.",
    ),
]


def new_secret(encrypt: bool, key_file: Path | None) -> "BackupSecret | None":
    """For a new backup; None if it is not to be encrypted."""
    if key_file is not None:
        return _read_key(key_file)
    if not encrypt and _VARIABLE not in os.environ:
        return None
    return _passphrase(os.environ.get(_VARIABLE) or _ask_twice())


def known_secret(is_encrypted: bool, key_file: Path | None) -> "BackupSecret | None":
    """For an existing backup."""
    if key_file is not None:
        return _read_key(key_file)
    if not is_encrypted:
        return None
    return _passphrase(os.environ.get(_VARIABLE) or _ask())


def _ask() -> str:
    return ask_hidden("Passphrase of the backup: ", f"Set {_VARIABLE}, or use --key-file")


def _ask_twice() -> str:
    first = _ask()
    if ask_hidden("The same again: ") != first:
        raise BadSettings("The passphrases differ.", "Start again.")
    return first


def _passphrase(text: str) -> "BackupSecret":
    from potluck.server.backup.encryption import BackupSecret

    if len(text) < _SHORTEST:
        raise BadSettings(
            f"The passphrase has fewer than {_SHORTEST} characters.", "Use a longer one."
        )
    return BackupSecret(text.encode(), is_passphrase=True)


def _read_key(path: Path) -> "BackupSecret":
    from potluck.local.durable_files import check_private
    from potluck.server.backup.encryption import KEY_BYTES, BackupSecret

    try:
        check_private(path)
        key = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise BadSettings(
            f"{path} cannot be read: {error.strerror}.", "Check --key-file."
        ) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadSettings(
            f"{path} has no key of 64 hexadecimal digits.", "Make one: openssl rand -hex 32"
        )
    return BackupSecret(key, is_passphrase=False)
