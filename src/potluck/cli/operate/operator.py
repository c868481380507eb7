"""The wallet that `up` acts for: an existing one, or a new one if there is none.

The server gets the wallet's address, the provider a node key that the wallet authorises. The
wallet's own key stays in this process, and is opened only for signing.
"""

from contextlib import closing
from pathlib import Path

from potluck.cli.account.authorise import is_authorised
from potluck.cli.terminal.prompt import ask_hidden
from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity import wallet
from potluck.consumer.identity.delegate import authorise, become_provider
from potluck.consumer.identity.profile import Profile, load_profile_for
from potluck.consumer.identity.session import replace_profile
from potluck.consumer.identity.sign_in import get_machine_name, make_session, sign_in
from potluck.consumer.identity.wallet import Wallet
from potluck.model.error import NotSignedIn, StartFailed
from potluck.provider.server.node_key import ensure_key, save_delegation


class Operator:
    """An address, and its wallet, opened on first use."""

    def __init__(self, address: str, opened: Wallet | None = None):
        self.address = address
        self._opened = opened

    def wallet(self) -> Wallet:
        if self._opened is None:
            self._opened = wallet.load()
            if self._opened.address != self.address:
                raise StartFailed(
                    f"The wallet in {wallet.keystore_path()} is not {self.address}.",
                    "Replace it with the right file.",
                )
        return self._opened


def find_operator() -> tuple[Operator, bool]:
    """The operator, and whether its wallet is new."""
    if not wallet.has_wallet():
        new = wallet.make_unattended()
        return Operator(new.address, new), True
    if wallet.can_open_unattended() and (address := wallet.find_address()):
        return Operator(address), False
    opened = wallet.load(ask=ask_hidden)
    return Operator(opened.address, opened), False


def sign_in_operator(operator: Operator, url: str) -> Profile:
    """Signs in as the operator, and saves the profile for later commands."""
    saved = load_profile_for(url)
    if saved is not None and _is_valid(saved, operator.address):
        return saved
    with closing(connect_anonymously(url)) as line:
        profile = Profile(url, make_session(sign_in(line, operator.wallet())))
        replace_profile(line, profile)
    return profile


def authorise_provider(operator: Operator, profile: Profile, directory: Path) -> bool:
    """Authorises the key of the provider in this directory.

    Returns whether an earlier authorisation is no longer valid at the server.
    """
    key = ensure_key(directory)
    is_remembered = is_authorised(directory, profile.url)
    with Potluck.as_saved(profile) as potluck:
        become_provider(potluck)
        # Also ask the server: it may have another database than last time.
        is_known = any(node_key.key == key for node_key in potluck.account.node_keys())
        if not (is_known and is_remembered):
            save_delegation(
                directory, authorise(potluck, operator.wallet(), key, get_machine_name())
            )
    return is_remembered and not is_known


def _is_valid(profile: Profile, address: str) -> bool:
    if profile.session is None or profile.session.address != address:
        return False
    try:
        with Potluck.as_saved(profile) as potluck:
            return potluck.account.me().address == address
    except NotSignedIn:
        return False
