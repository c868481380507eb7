"""A private key in a file that a password opens: the keystore that Ethereum's tools share (V3).

We write scrypt, at a strength that takes this machine about half a second; others' files, scrypt
or PBKDF2, are read as well.
"""

from pathlib import Path
from typing import Any

import msgspec

from potluck.model.error import BadSettings, NotSignedIn
from potluck.wire.signing.address import checksummed

_SCRYPT_N = 2**17
_VERSION = 3
_KEY_BYTES = 32


def locked(key: bytes, password: str) -> bytes:
    """The content of a keystore for this key."""
    from eth_keyfile.keyfile import create_keyfile_json  # slow to import, and seldom needed

    made = create_keyfile_json(key, password.encode(), _VERSION, "scrypt", _SCRYPT_N)
    return msgspec.json.encode(made)


def unlocked(path: Path, password: str) -> bytes:
    """The key in a keystore. Raises NotSignedIn for the wrong password."""
    from eth_keyfile.exceptions import EthKeyfileValueError
    from eth_keyfile.keyfile import decode_keyfile_json

    found = _read(path)
    if found.get("version") != _VERSION:
        raise _damaged(path)
    try:
        key: bytes = decode_keyfile_json(found, password.encode())
    except EthKeyfileValueError as error:  # its MAC, and nothing else
        raise NotSignedIn(
            f"The password does not open the wallet {path}.", "Try again, or name another wallet."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise _damaged(path) from error
    if len(key) != _KEY_BYTES:
        raise _damaged(path)
    return key


def named_address(path: Path) -> str | None:
    """The address that a keystore says is its own; some leave it out."""
    named = _read(path).get("address")
    if not isinstance(named, str):
        return None
    return checksummed(f"0x{named.removeprefix('0x').lower()}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise BadSettings(
            f"The wallet {path} can not be read: {error.strerror}.", "Check who owns it."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> BadSettings:
    return BadSettings(
        f"{path} is not a keystore that we can read.",
        "It should be the JSON (version 3) that wallets export, or a private key in hexadecimal.",
    )
