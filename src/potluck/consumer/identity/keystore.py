"""Password-protected private keys in Ethereum's keystore format (V3).

We write scrypt, at a strength that takes about half a second; we read scrypt and PBKDF2.
"""

from pathlib import Path
from typing import Any

import msgspec

from potluck.model.error import BadSettings, NotSignedIn
from potluck.wire.signing.address import checksummed

_SCRYPT_N = 2**17
_VERSION = 3
_KEY_BYTES = 32


def encrypt_key(key: bytes, password: str) -> bytes:
    """The content of a keystore for this key."""
    from eth_keyfile.keyfile import create_keyfile_json  # slow to import, and seldom needed

    content = create_keyfile_json(key, password.encode(), _VERSION, "scrypt", _SCRYPT_N)
    return msgspec.json.encode(content)


def decrypt_key(path: Path, password: str) -> bytes:
    """The key in a keystore. Raises NotSignedIn for the wrong password."""
    from eth_keyfile.exceptions import EthKeyfileValueError
    from eth_keyfile.keyfile import decode_keyfile_json

    content = _read(path)
    if content.get("version") != _VERSION:
        raise _damaged(path)
    try:
        key: bytes = decode_keyfile_json(content, password.encode())
    except EthKeyfileValueError as error:  # raised for a wrong MAC only
        raise NotSignedIn(
            f"The password of the wallet {path} is wrong.", "Try again, or choose another wallet."
        ) from error
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise _damaged(path) from error
    if len(key) != _KEY_BYTES:
        raise _damaged(path)
    return key


def read_address(path: Path) -> str | None:
    """The address in a keystore; some leave it out."""
    address = _read(path).get("address")
    if not isinstance(address, str):
        return None
    return checksummed(f"0x{address.removeprefix('0x').lower()}")


def _read(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise BadSettings(
            f"The wallet {path} cannot be read: {error.strerror}.", "Check its owner and mode."
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> BadSettings:
    return BadSettings(
        f"{path} is not a keystore that Potluck can read.",
        "It has to be the JSON (version 3) that wallets export, or a hexadecimal private key.",
    )
