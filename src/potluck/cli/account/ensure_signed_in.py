"""Coming in on the way: the first command at a pool signs in, with a new wallet if there is none.

Only where nothing is known yet. Who has logged out stays so, and a profile that is for another
server is not changed in passing: `potluck login` does both on purpose. Nor does anybody come in
at a server that only a project names, which may be a stranger's.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from potluck.cli.options import (
    CaFingerprintOption,
    InviteOption,
    KeyFileOption,
    connect,
    server_url,
)
from potluck.cli.terminal.screen import Screen, Tone
from potluck.local.project import Default
from potluck.model.error import NotSignedIn

if TYPE_CHECKING:
    from potluck.consumer import Potluck


@dataclass(frozen=True)
class EntryOptions:
    """By whom one is let in. Said again later, it changes nothing."""

    panel: ClassVar = "The first time at a pool"

    invite: InviteOption = None
    ca_fingerprint: CaFingerprintOption = None
    key_file: KeyFileOption = None


def entered(
    screen: Screen, server: str | None, entry: EntryOptions, by_project: Default | None = None
) -> "Potluck":
    """The client, for somebody who is signed in by now. `by_project` is what names the server, if
    nobody typed it."""
    from potluck.consumer.http.ca_pinning import pin_ca
    from potluck.consumer.identity.profile import chosen_url
    from potluck.local.data_directory import config_directory

    address = chosen_url(server_url(server))
    is_new = _is_new(address, by_project)
    if entry.ca_fingerprint is not None:
        pin_ca(address, entry.ca_fingerprint, config_directory())
    if is_new:
        _enter(screen, address, entry)
    return connect(address)


def _is_new(address: str, by_project: Default | None) -> bool:
    """Whether nobody has chosen yet who to be at this server."""
    from potluck.consumer.http.connect import TOKEN_VARIABLE
    from potluck.consumer.identity.profile import saved_profile

    if os.environ.get(TOKEN_VARIABLE):
        return False
    saved = saved_profile()
    if saved is not None and saved.url == address:
        return False
    if by_project is not None:
        raise NotSignedIn(
            f"You are not signed in to {address}, which {by_project.where} names.",
            f"If you trust it: `potluck login {address}`. With --server you name another.",
        )
    if saved is not None and saved.session is not None:
        raise NotSignedIn(
            f"You are not signed in to {address}: your profile is for {saved.url}.",
            f"`potluck login {address}` moves it there; with another POTLUCK_CONFIG_DIR you keep"
            " both.",
        )
    return True


def _enter(screen: Screen, address: str, entry: EntryOptions) -> None:
    from potluck.cli.account.login import chosen_key_file, keep, sign_in_with_a_wallet
    from potluck.consumer.http.connect import door

    with closing(door(address)) as line:
        used = chosen_key_file(address, entry.key_file)
        tokens = sign_in_with_a_wallet(screen, line, used, entry.invite)
        keep(line, tokens, used)
    if not screen.json:
        told = f"Signed in to {address}. The next commands speak to it, too."
        screen.err.line(told, Tone.FAINT)
