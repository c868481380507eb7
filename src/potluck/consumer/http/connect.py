"""The line to a server, as the one who is signed in there.

A token that was given wins over POTLUCK_TOKEN, and that over the session in the profile. The
authority that was pinned for a server is believed for it alone; POTLUCK_CA_FILE names another.
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
    if named := os.environ.get(TOKEN_VARIABLE):
        return Transport(address, patience, ca_file_for(address), FixedToken(named, TOKEN_VARIABLE))
    if saved is None or saved.session is None:
        raise signed_out(address)
    return as_saved(saved, patience)


def as_saved(saved: Profile, patience: Patience | None = None) -> Transport:
    """As the session of the profile, whatever POTLUCK_TOKEN says."""
    line = door(saved.url, patience=patience)
    return Transport(line.url, line.patience, line.ca_file, SavedSession(line))


def door(url: str, ca_file: Path | None = None, patience: Patience | None = None) -> Transport:
    """For those who are not in yet."""
    return Transport(url, patience or Patience(), ca_file or ca_file_for(url))


def ca_file_for(url: str) -> Path | None:
    """The authority that this server is believed by; none: those of the system."""
    saved = saved_for(url)
    named = os.environ.get("POTLUCK_CA_FILE") or (saved.ca_file if saved is not None else None)
    return Path(named) if named else pinned(url, config_directory())
