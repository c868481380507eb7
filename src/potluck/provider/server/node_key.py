"""The node key of this machine: created here, and never copied elsewhere.

A wallet authorises it once (`signing/delegation.py`); from then on it signs in by itself, without
the wallet's key. The authorisation is saved next to it, so that the command that starts a provider
knows when it expires; the server decides by its own copy.

DATA/node-key        the private key, hexadecimal, readable only by its owner
DATA/delegations/    for each server's origin: the wallet's authorisation
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

from potluck.local.durable_files import draft_path, keep_private, sync, write_atomically, write_new
from potluck.model.device import DeviceDescription
from potluck.model.error import BadSettings
from potluck.wire.identity import Delegation
from potluck.wire.signing.device_statement import DeviceStatement, statement_digest
from potluck.wire.signing.signature import Signer, text_digest

_KEY = re.compile(r"[0-9a-f]{64}")


class Authorised(Struct, frozen=True):
    """A wallet's authorisation of the key, and when it expires."""

    origin: str
    key: str
    issued_at: int  # seconds since 1970
    expires_at: int


class NodeKey:
    """An address and its signing key. The key is never shown."""

    __slots__ = ("_signer", "address")

    def __init__(self, key: bytes) -> None:
        self._signer = Signer(key)
        self.address = self._signer.address

    def sign_digest(self, digest: bytes) -> str:
        return self._signer.sign(digest)

    def sign_text(self, text: str) -> str:
        return self.sign_digest(text_digest(text))

    def state_devices(
        self, devices: Sequence[DeviceDescription], origin: str, now: datetime
    ) -> tuple[DeviceStatement, ...]:
        """Signed statements for this server that these devices are here now."""
        at = int(now.timestamp())
        return tuple(
            DeviceStatement(
                device.uuid,
                origin,
                at,
                self.sign_digest(statement_digest(device.uuid, self.address, origin, at)),
            )
            for device in devices
        )

    def __repr__(self) -> str:
        return f"NodeKey({self.address})"


def ensure_key(data_directory: Path) -> str:
    """The address of this directory's node key; creates the key if there is none."""
    return load_key(data_directory).address


def load_key(data_directory: Path) -> NodeKey:
    path = data_directory / "node-key"
    with _translate_errors(f"The node key {path}"):
        data_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        return NodeKey(_read(path))


def load_authorised(data_directory: Path, origin: str) -> Authorised | None:
    """The saved authorisation of this key for this server."""
    path = _delegation_path(data_directory, origin)
    try:
        with _translate_errors(f"The wallet's authorisation in {path}"):
            if not path.exists():
                return None
            authorised = msgspec.json.decode(path.read_bytes(), type=Authorised)
    except msgspec.DecodeError:
        return None
    is_ours = (authorised.origin, authorised.key) == (origin, ensure_key(data_directory))
    return authorised if is_ours else None


def save_delegation(data_directory: Path, delegation: Delegation | Authorised) -> None:
    path = _delegation_path(data_directory, delegation.origin)
    with _translate_errors(f"The wallet's authorisation in {path}"):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, msgspec.json.encode(delegation))


def forget_delegation(data_directory: Path, origin: str) -> bool:
    """Deletes the authorisation; returns whether one for another server is left."""
    path = _delegation_path(data_directory, origin)
    with _translate_errors(f"The wallet's authorisation in {path}"):
        path.unlink(missing_ok=True)
        return path.parent.exists() and any(path.parent.glob("*.json"))


def forget_key(data_directory: Path) -> None:
    path = data_directory / "node-key"
    with _translate_errors(f"The node key {path}"):
        path.unlink(missing_ok=True)
        sync(data_directory)


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise BadSettings(
            f"{what} cannot be used: its directory is a file.",
            "Choose a directory with --data-dir.",
        ) from error
    except OSError as error:
        raise BadSettings(
            f"{what} cannot be used: {error.strerror}.",
            "Free some space, fix its permissions, or choose another directory with --data-dir.",
        ) from error


def _make(path: Path) -> None:
    """Creates the file atomically, and never replaces an existing one."""
    draft = draft_path(path)
    try:
        write_new(draft, PrivateKey().secret.hex().encode())
        with suppress(FileExistsError):  # another process was faster
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def _read(path: Path) -> bytes:
    keep_private(path)
    text = path.read_text("ascii", "replace").strip()
    if not _KEY.fullmatch(text):
        raise BadSettings(
            f"{path} does not contain a key.",
            "Remove it: a new key is created, which you then authorise.",
        )
    return bytes.fromhex(text)


def _delegation_path(data_directory: Path, origin: str) -> Path:
    name = hashlib.sha256(origin.encode()).hexdigest()[:16]
    return data_directory / "delegations" / f"{name}.json"
