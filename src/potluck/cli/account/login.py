"""`potluck login`: come in with a wallet, of this machine or of a browser."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.cli.operate.welcome import warn_of_variables
from potluck.cli.options import (
    BrowserOption,
    CaFingerprintOption,
    InviteOption,
    JsonOption,
    KeyFileOption,
    UrlArgument,
)
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import BadSettings

if TYPE_CHECKING:
    from potluck.consumer.http.transport import Transport
    from potluck.consumer.identity.wallet import Wallet
    from potluck.wire.identity import Tokens


def login(
    url: UrlArgument = None,
    browser: BrowserOption = False,
    invite: InviteOption = None,
    key_file: KeyFileOption = None,
    ca_fingerprint: CaFingerprintOption = None,
    json: JsonOption = False,
) -> None:
    """Sign in with your wallet; the first time, make one.

    The next commands speak as you."""
    from potluck.consumer.http.ca_pinning import pin_ca
    from potluck.consumer.http.connect import door
    from potluck.consumer.identity.profile import chosen_url
    from potluck.local.data_directory import config_directory

    screen = Screen(json)
    address = chosen_url(url)
    ca_file = (
        None if ca_fingerprint is None else pin_ca(address, ca_fingerprint, config_directory())
    )
    with closing(door(address, ca_file)) as line:
        if browser:
            used, tokens = None, _through_a_browser(screen, line, invite)
        else:
            used = chosen_key_file(address, key_file)
            tokens = sign_in_with_a_wallet(screen, line, used, invite)
        path = keep(line, tokens, used)
    if json:
        who = {"account_id": tokens.account_id, "address": tokens.address}
        screen.emit({"event": "signed_in", "url": address, **who, "profile": str(path)})
    else:
        screen.out.line(f"Signed in to {address} as {tokens.address}.", Tone.GOOD)
        warn_of_variables(screen.err, address)


def chosen_key_file(url: str, key_file: Path | None) -> Path | None:
    """The one that was named, else the one that signed in there the last time."""
    from potluck.consumer.identity.profile import saved_for
    from potluck.consumer.identity.wallet import KEY_VARIABLE

    if key_file is not None:
        return key_file.absolute()
    saved = None if os.environ.get(KEY_VARIABLE) else saved_for(url)
    return Path(saved.key_file) if saved is not None and saved.key_file else None


def open_wallet(screen: Screen, line: "Transport", key_file: Path | None) -> "Wallet":
    """The wallet that is here, or a new one; whoever makes one is told where it is."""
    from potluck.cli.terminal.prompt import hidden, new_password
    from potluck.consumer.identity import wallet

    if wallet.is_known(key_file):
        return wallet.load(key_file, hidden)
    _check_before_making(line)
    made = wallet.make(os.environ.get(wallet.PASSWORD_VARIABLE) or new_password())
    if not screen.json:
        screen.err.line(f"Made the wallet {made.address}, in {wallet.keystore_path()}.")
        screen.err.line("Keep a copy of it, and its password: nobody can replace them.", Tone.FAINT)
    return made


def _check_before_making(line: "Transport") -> None:
    """No wallet is made for a server that is not there, or for somebody who has one elsewhere."""
    from potluck.consumer.identity.profile import saved_for
    from potluck.consumer.identity.sign_in import challenge
    from potluck.wire.signing.sign_in_answer import own_origin

    saved = saved_for(line.url)
    if saved is not None and saved.session is not None:
        raise BadSettings(
            f"You are signed in to {line.url} as {saved.session.address}, and that wallet is not"
            " here.",
            "Sign with it again: --browser, or --key-file FILE. To come with a new wallet instead,"
            " `potluck logout` first.",
        )
    own_origin(line.url, challenge(line))


def sign_in_with_a_wallet(
    screen: Screen, line: "Transport", key_file: Path | None, invite: str | None
) -> "Tokens":
    from potluck.consumer.identity.sign_in import sign_in

    return sign_in(line, open_wallet(screen, line, key_file), invite)


def keep(line: "Transport", tokens: "Tokens", key_file: Path | None) -> Path:
    """The profile for the next commands; says where it is."""
    from potluck.consumer.identity.profile import Profile
    from potluck.consumer.identity.session import replace_profile
    from potluck.consumer.identity.sign_in import session_of

    session, ca_file = session_of(tokens), _text(line.ca_file)
    return replace_profile(line, Profile(line.url, session, ca_file, _text(key_file)))


def _through_a_browser(screen: Screen, line: "Transport", invite: str | None) -> "Tokens":
    from potluck.cli.account.browser import show_page
    from potluck.consumer.identity.device_flow import ask_for_terminal, await_approval

    asked = ask_for_terminal(line, invite)
    show_page(screen, asked, line.url)
    return await_approval(line, asked)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
