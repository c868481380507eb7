"""Transports to a server, with the right credential and certificate authority.

A token argument takes precedence over POTLUCK_TOKEN, which takes precedence over the session in the
profile. A pinned authority is trusted for its server alone; POTLUCK_CA_FILE overrides it.
"""

import os
from pathlib import Path

from potluck.consumer.http.ca_pinning import pinned
from potluck.consumer.http.transport import Patience, Transport
from potluck.consumer.identity.bearer import FixedToken
from potluck.consumer.identity.profile import Profile, chosen_url, saved_for
from potluck.consumer.identity.session import SavedSession, signed_out
from potluck.local.data_directory import config_directory

TOKEN_VARIABLE = "POTLUCK_TOKEN"  # noqa: S105 - its name


def connect(url: str | None, token: str | None, patience: Patience) -> Transport:
    address = chosen_url(url)
    saved = saved_for(address)
    if token:
        return Transport(address, patience, ca_file_for(address), FixedToken(token))
    if variable := os.environ.get(TOKEN_VARIABLE):
        bearer = FixedToken(variable, TOKEN_VARIABLE)
        return Transport(address, patience, ca_file_for(address), bearer)
    if saved is None or saved.session is None:
        raise signed_out(address)
    return as_saved(saved, patience)


def as_saved(saved: Profile, patience: Patience | None = None) -> Transport:
    """With the session of the profile, even if POTLUCK_TOKEN is set."""
    anonymous = door(saved.url, patience=patience)
    session = SavedSession(anonymous)
    return Transport(anonymous.url, anonymous.patience, anonymous.ca_file, session)


def door(url: str, ca_file: Path | None = None, patience: Patience | None = None) -> Transport:
    """A transport without a credential."""
    return Transport(url, patience or Patience(), ca_file or ca_file_for(url))


def ca_file_for(url: str) -> Path | None:
    """The certificate authority to trust for this server; None: those of the system."""
    saved = saved_for(url)
    path = os.environ.get("POTLUCK_CA_FILE") or (saved.ca_file if saved is not None else None)
    return Path(path) if path else pinned(url, config_directory())
