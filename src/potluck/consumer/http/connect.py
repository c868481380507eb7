"""Transports to a server, with the right credential and certificate authority.

A token argument takes precedence over POTLUCK_TOKEN, which takes precedence over the session in the
profile. A pinned authority is trusted for its server alone; POTLUCK_CA_FILE overrides it.
"""

import os
from pathlib import Path

from potluck.consumer.http.ca_pinning import find_pinned_ca
from potluck.consumer.http.transport import Patience, Transport
from potluck.consumer.identity.bearer import FixedToken
from potluck.consumer.identity.profile import Profile, choose_url, load_profile_for
from potluck.consumer.identity.session import SavedSession, not_signed_in_error
from potluck.local.data_directory import config_directory

TOKEN_VARIABLE = "POTLUCK_TOKEN"  # noqa: S105 - its name


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
