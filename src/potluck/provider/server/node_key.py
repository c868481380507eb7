"""The node key: this machine's own, made here, and never anywhere else.

A wallet authorises it once (`wire/signing/delegation.py`); from then on it signs in by itself, and the
wallet's key is not needed here. The wallet's word is kept beside it, so that the command that
starts a provider knows until when it holds; the server has it too, and decides by its own.

DATA/node-key        the private key, hexadecimal, for its owner's eyes only
DATA/delegations/    for each server's origin: the wallet's word
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from coincurve import PrivateKey
from msgspec import Struct

from potluck.local.durable_files import (
    draft_of,
    sync,
    write_new,
    write_whole,
)
from potluck.local.private_files import keep_private
from potluck.model.device import DeviceDescription
from potluck.model.error import BadSettings
from potluck.wire.identity import Delegation
from potluck.wire.signing.device_statement import DeviceStatement, statement_digest
from potluck.wire.signing.signature import address_of, sign, text_digest

_KEY = re.compile(r"[0-9a-f]{64}")


class Authorised(Struct, frozen=True):
    """That a wallet's word holds until then; the word itself, where it was signed here."""

    origin: str
    key: str
    issued_at: int  # seconds since 1970
    expires_at: int


class NodeKey:
    """An address, and the key that signs for it. The key is not shown to anybody."""

    __slots__ = ("_key", "address")

    def __init__(self, key: bytes) -> None:
        self.address = address_of(key)
        self._key = key

    def sign_text(self, text: str) -> str:
        return sign(self._key, text_digest(text))

    def state_devices(
        self, devices: Sequence[DeviceDescription], origin: str, now: datetime
    ) -> tuple[DeviceStatement, ...]:
        """That these devices are here now, said to this server."""
        at = int(now.timestamp())
        return tuple(
            DeviceStatement(
                one.uuid,
                origin,
                at,
                sign(self._key, statement_digest(one.uuid, self.address, origin, at)),
            )
            for one in devices
        )

    def __repr__(self) -> str:
        return f"NodeKey({self.address})"


def ensure_key(data_directory: Path) -> str:
    """The address of the node key of this directory; makes the key if there is none."""
    return load_key(data_directory).address


def load_key(data_directory: Path) -> NodeKey:
    path = data_directory / "node-key"
    with _told(f"The node key {path}"):
        data_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        return NodeKey(_read(path))


def load_authorised(data_directory: Path, origin: str) -> Authorised | None:
    """What is known here of the wallet's word for this key and server."""
    path = _delegation_path(data_directory, origin)
    try:
        with _told(f"The wallet's word in {path}"):
            if not path.exists():
                return None
            known = msgspec.json.decode(path.read_bytes(), type=Authorised)
    except msgspec.DecodeError:
        return None
    is_ours = (known.origin, known.key) == (origin, ensure_key(data_directory))
    return known if is_ours else None


def save_delegation(data_directory: Path, word: Delegation | Authorised) -> None:
    path = _delegation_path(data_directory, word.origin)
    with _told(f"The wallet's word in {path}"):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, msgspec.json.encode(word))


def forget_delegation(data_directory: Path, origin: str) -> bool:
    """Whether a wallet's word for another server is left."""
    path = _delegation_path(data_directory, origin)
    with _told(f"The wallet's word in {path}"):
        path.unlink(missing_ok=True)
        return path.parent.exists() and any(path.parent.glob("*.json"))


def forget_key(data_directory: Path) -> None:
    path = data_directory / "node-key"
    with _told(f"The node key {path}"):
        path.unlink(missing_ok=True)
        sync(data_directory)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise BadSettings(
            f"{what} can not be used: what should be its directory is a file.",
            "Name a directory with --data-dir.",
        ) from error
    except OSError as error:
        raise BadSettings(
            f"{what} can not be used: {error.strerror}.",
            "Make room, mend its permissions, or name another directory with --data-dir.",
        ) from error


def _make(path: Path) -> None:
    """Whole from the first moment, and never in the place of another."""
    draft = draft_of(path)
    try:
        write_new(draft, PrivateKey().secret.hex().encode())
        with suppress(FileExistsError):  # another process was quicker by a moment
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def _read(path: Path) -> bytes:
    keep_private(path)
    text = path.read_text("ascii", "replace").strip()
    if not _KEY.fullmatch(text):
        raise BadSettings(
            f"What {path} holds is not a key.", "Remove it: a new one is made, and authorised anew."
        )
    return bytes.fromhex(text)


def _delegation_path(data_directory: Path, origin: str) -> Path:
    name = hashlib.sha256(origin.encode()).hexdigest()[:16]
    return data_directory / "delegations" / f"{name}.json"
