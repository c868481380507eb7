"""Transports to a server, with the right credential and certificate authority.

A token argument takes precedence over POTLUCK_TOKEN, which takes precedence over the session in the
profile. A pool's own certificate authority is fetched once, compared with its fingerprint and
pinned: it is trusted for its server alone. POTLUCK_CA_FILE overrides it.
"""

import hashlib
import os
import re
from pathlib import Path

from potluck.consumer.http.transport import Patience, Transport
from potluck.consumer.identity.bearer import FixedToken
from potluck.consumer.identity.profile import Profile, choose_url, load_profile_for
from potluck.consumer.identity.session import SavedSession, not_signed_in_error
from potluck.local.data_directory import config_directory
from potluck.local.durable_files import write_atomically
from potluck.local.trust import fetch_ca, normalize_fingerprint, require_https
from potluck.model.error import BadSettings
from potluck.wire import routes
from potluck.wire.signing.sign_in_answer import origin_of

_NAME = re.compile(r"ca-([0-9a-f]{64})\.pem")
TOKEN_VARIABLE = "POTLUCK_TOKEN"  # noqa: S105 - its name


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


def connect(url: str | None, token: str | None, patience: Patience) -> Transport:
    address = choose_url(url)
    saved = load_profile_for(address)
    if token:
        return Transport(address, patience, find_ca_file(address), FixedToken(token))
    if variable := os.environ.get(TOKEN_VARIABLE):
        bearer = FixedToken(variable, TOKEN_VARIABLE)
        return Transport(address, patience, find_ca_file(address), bearer)
    if saved is None or saved.session is None:
        raise not_signed_in_error(address)
    return connect_with_profile(saved, patience)


def connect_with_profile(saved: Profile, patience: Patience | None = None) -> Transport:
    """With the session of the profile, even if POTLUCK_TOKEN is set."""
    anonymous = connect_anonymously(saved.url, patience=patience)
    session = SavedSession(anonymous)
    return Transport(anonymous.url, anonymous.patience, anonymous.ca_file, session)


def connect_anonymously(
    url: str, ca_file: Path | None = None, patience: Patience | None = None
) -> Transport:
    """A transport without a credential."""
    return Transport(url, patience or Patience(), ca_file or find_ca_file(url))


def find_ca_file(url: str) -> Path | None:
    """The certificate authority to trust for this server; None: those of the system."""
    saved = load_profile_for(url)
    path = os.environ.get("POTLUCK_CA_FILE") or (saved.ca_file if saved is not None else None)
    return Path(path) if path else find_pinned_ca(url, config_directory())
