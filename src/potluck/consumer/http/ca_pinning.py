"""Pinning of a pool's own certificate authority: fetched once, compared, stored for its clients."""

import hashlib
import re
from pathlib import Path

from potluck.local.durable_files import write_atomically
from potluck.local.trust import fetch_ca, normalize_fingerprint, require_https
from potluck.model.error import BadSettings
from potluck.wire import routes
from potluck.wire.signing.sign_in_answer import origin_of

_NAME = re.compile(r"ca-([0-9a-f]{64})\.pem")


def pinned_fingerprint(ca_file: Path | None) -> str | None:
    """The fingerprint of a pinned authority; None for any other file."""
    match = None if ca_file is None else _NAME.fullmatch(ca_file.name)
    return None if match is None else f"sha256:{match[1]}"


def find_pinned_ca(url: str, directory: Path) -> Path | None:
    """The authority that is pinned for this server."""
    try:
        path = directory / _note(url, directory).read_text().strip()
    except OSError:
        return None
    return path if _NAME.fullmatch(path.name) and path.exists() else None


def pin_ca(url: str, fingerprint: str, directory: Path) -> Path:
    """Pins the authority with this fingerprint and returns its file; fetches it if it is new.

    From now on no other authority is trusted for this server.
    """
    require_https(url)
    digits = normalize_fingerprint(fingerprint).partition(":")[2]
    path = directory / f"ca-{digits}.pem"
    try:
        if not path.exists():
            pem = fetch_ca(url + routes.CA_CERTIFICATE.url(), fingerprint)
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, pem.encode())
        note = _note(url, directory)
        note.parent.mkdir(exist_ok=True, mode=0o700)
        write_atomically(note, path.name.encode())
    except OSError as error:
        raise BadSettings(
            f"The server's certificate authority cannot be saved in {directory}: {error.strerror}.",
            "Make it writable, or choose another directory with POTLUCK_CONFIG_DIR.",
        ) from error
    return path


def _note(url: str, directory: Path) -> Path:
    return directory / "pins" / hashlib.sha256(origin_of(url).encode()).hexdigest()[:16]
