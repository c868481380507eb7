"""The first command at a pool signs in, with a new wallet if there is none.

Only without a profile: a user who has logged out stays logged out, and a profile for another server
is not replaced; `potluck login` does both. A command also never signs in at a server that only a
project file names, because the file may come from someone else.
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
    own_pools,
    resolve_server_url,
)
from potluck.cli.terminal.screen import Screen, Tone
from potluck.local.project import Default
from potluck.model.error import NotSignedIn

if TYPE_CHECKING:
    from potluck.consumer import Potluck


@dataclass(frozen=True)
class SignInOptions:
    """Options for the first sign-in; later they have no effect."""

    panel: ClassVar = "First use of a pool"

    invite: InviteOption = None
    ca_fingerprint: CaFingerprintOption = None
    key_file: KeyFileOption = None


def signed_in_client(
    screen: Screen, server: str | None, entry: SignInOptions, by_project: Default | None = None
) -> "Potluck":
    """Returns a signed-in client. `by_project` is the project default that names the server."""
    from potluck.consumer.http.connect import pin_ca
    from potluck.consumer.identity.profile import choose_url
    from potluck.local.data_directory import config_directory

    address = choose_url(resolve_server_url(server))
    is_new = _needs_sign_in(address, by_project)
    if entry.ca_fingerprint is not None:
        pin_ca(address, entry.ca_fingerprint, config_directory())
    if is_new:
        _sign_in(screen, address, entry)
    return connect(address)


def owner_client(screen: Screen, server: str | None) -> "Potluck":
    """A client for the owner of this machine, whose node key alone cannot act for the account.

    Without a profile it signs in where this machine provides, if the wallet opens without a prompt.
    """
    from potluck.consumer.identity.profile import choose_url
    from potluck.consumer.identity.wallet import can_open_unattended, has_wallet

    address = choose_url(resolve_server_url(server))
    if address not in own_pools() or not _needs_sign_in(address, None):
        return connect(server)
    if not (has_wallet() and can_open_unattended()):
        where = "" if has_wallet() else " --browser"
        raise NotSignedIn(
            f"This machine provides to {address}, but you are not signed in there: its key cannot"
            " act for your account.",
            f"Sign in with the wallet that authorised it: `potluck login {address}{where}`.",
        )
    _sign_in(screen, address, SignInOptions())
    return connect(address)


def _needs_sign_in(address: str, by_project: Default | None) -> bool:
    """Whether there is no profile, session or key for this server yet."""
    from potluck.consumer.http.connect import TOKEN_VARIABLE
    from potluck.consumer.identity.profile import load_profile

    if os.environ.get(TOKEN_VARIABLE):
        return False
    saved = load_profile()
    if saved is not None and saved.url == address:
        return False
    if by_project is not None:
        raise NotSignedIn(
            f"You are not signed in to {address}, which {by_project.where} names.",
            f"If you trust it: `potluck login {address}`. To use another: --server URL.",
        )
    if saved is not None and saved.session is not None:
        raise NotSignedIn(
            f"You are not signed in to {address}: your profile is for {saved.url}.",
            f"`potluck login {address}` replaces it; another POTLUCK_CONFIG_DIR keeps both.",
        )
    return True


def _sign_in(screen: Screen, address: str, entry: SignInOptions) -> None:
    from potluck.cli.account.login import choose_key_file, save_session, sign_in_with_wallet
    from potluck.consumer.http.connect import connect_anonymously

    with closing(connect_anonymously(address)) as line:
        key_file = choose_key_file(address, entry.key_file)
        tokens = sign_in_with_wallet(screen, line, key_file, entry.invite)
        save_session(line, tokens, key_file)
    if not screen.json:
        screen.err.line(f"Signed in to {address}. Later commands use it, too.", Tone.FAINT)
