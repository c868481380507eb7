"""Who `up` acts as: a wallet that it finds, or makes when there is none.

The server is told the wallet's address, the provider gets a node key that the wallet authorises.
The wallet's own key stays in this process, and is opened only when something has to be signed.
"""

from contextlib import closing
from pathlib import Path

from potluck.cli.account.authorise import is_authorised
from potluck.cli.terminal.prompt import hidden
from potluck.consumer import Potluck
from potluck.consumer.http.connect import door
from potluck.consumer.identity import wallet
from potluck.consumer.identity.delegate import authorise, become_provider
from potluck.consumer.identity.profile import Profile, saved_for
from potluck.consumer.identity.session import replace_profile
from potluck.consumer.identity.sign_in import machine, session_of, sign_in
from potluck.consumer.identity.wallet import Wallet
from potluck.model.error import NotSignedIn, StartFailed
from potluck.provider.server.node_key import ensure_key, save_delegation


class Operator:
    """An address, and the wallet behind it once it is needed."""

    def __init__(self, address: str, opened: Wallet | None = None):
        self.address = address
        self._opened = opened

    def wallet(self) -> Wallet:
        if self._opened is None:
            self._opened = wallet.load()
            if self._opened.address != self.address:
                raise StartFailed(
                    f"The wallet {wallet.keystore_path()} says it is {self.address}, and is not.",
                    "Put the right file in its place.",
                )
        return self._opened


def find_operator() -> tuple[Operator, bool]:
    """Whose platform this is, and whether the wallet was made just now."""
    if not wallet.is_known():
        made = wallet.make_unattended()
        return Operator(made.address, made), True
    if wallet.opens_unattended() and (named := wallet.known_address()):
        return Operator(named), False
    opened = wallet.load(ask=hidden)
    return Operator(opened.address, opened), False


def sign_in_here(operator: Operator, url: str) -> Profile:
    """The profile for this server, signed in as the operator, kept for the next commands."""
    saved = saved_for(url)
    if saved is not None and _still_holds(saved, operator.address):
        return saved
    with closing(door(url)) as line:
        profile = Profile(url, session_of(sign_in(line, operator.wallet())))
        replace_profile(line, profile)
    return profile


def authorise_here(operator: Operator, profile: Profile, directory: Path) -> bool:
    """Lets the provider in this directory work for the operator, for weeks from now.

    True if that was said before, and the server does not go by it any more.
    """
    key = ensure_key(directory)
    is_remembered = is_authorised(directory, profile.url)
    with Potluck.as_saved(profile) as potluck:
        become_provider(potluck)
        # Asked too, not only remembered: the server may have another database than the last time.
        is_known = any(each.key == key for each in potluck.account.node_keys())
        if not (is_known and is_remembered):
            save_delegation(directory, authorise(potluck, operator.wallet(), key, machine()))
    return is_remembered and not is_known


def _still_holds(saved: Profile, address: str) -> bool:
    if saved.session is None or saved.session.address != address:
        return False
    try:
        with Potluck.as_saved(saved) as potluck:
            return potluck.account.me().address == address
    except NotSignedIn:
        return False
