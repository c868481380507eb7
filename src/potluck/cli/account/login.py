"""`potluck login`: sign in with a wallet on this machine or in a browser."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from potluck.cli.operate.welcome import warn_about_variables
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
    """Sign in with your wallet, or make one first.

    Later commands act as this wallet."""
    from potluck.consumer.http.connect import connect_anonymously, pin_ca
    from potluck.consumer.identity.profile import choose_url
    from potluck.local.data_directory import config_directory

    screen = Screen(json)
    address = choose_url(url)
    ca_file = (
        None if ca_fingerprint is None else pin_ca(address, ca_fingerprint, config_directory())
    )
    with closing(connect_anonymously(address, ca_file)) as line:
        if browser:
            used_key_file, tokens = None, _sign_in_with_browser(screen, line, invite)
        else:
            used_key_file = choose_key_file(address, key_file)
            tokens = sign_in_with_wallet(screen, line, used_key_file, invite)
        path = save_session(line, tokens, used_key_file)
    if json:
        who = {"account_id": tokens.account_id, "address": tokens.address}
        screen.emit({"event": "signed_in", "url": address, **who, "profile": str(path)})
    else:
        screen.out.line(f"Signed in to {address} as {tokens.address}.", Tone.GOOD)
        warn_about_variables(screen.err, address)


def choose_key_file(url: str, key_file: Path | None) -> Path | None:
    """The named file, or the one that signed in there last time."""
    from potluck.consumer.identity.profile import load_profile_for
    from potluck.consumer.identity.wallet import KEY_VARIABLE

    if key_file is not None:
        return key_file.absolute()
    saved = None if os.environ.get(KEY_VARIABLE) else load_profile_for(url)
    return Path(saved.key_file) if saved is not None and saved.key_file else None


def open_wallet(screen: Screen, line: "Transport", key_file: Path | None) -> "Wallet":
    """Opens the existing wallet, or makes one and prints its path."""
    from potluck.cli.terminal.prompt import ask_hidden, ask_new_password
    from potluck.consumer.identity import wallet

    if wallet.has_wallet(key_file):
        return wallet.load(key_file, ask_hidden)
    _check_may_make_wallet(line)
    new = wallet.make(os.environ.get(wallet.PASSWORD_VARIABLE) or ask_new_password())
    if not screen.json:
        screen.err.line(f"Made the wallet {new.address}, in {wallet.keystore_path()}.")
        screen.err.line("Back up the file and its password: they cannot be recovered.", Tone.FAINT)
    return new


def _check_may_make_wallet(line: "Transport") -> None:
    """Raises if the server is unreachable, or if the user has signed in with another wallet."""
    from potluck.consumer.identity.profile import load_profile_for
    from potluck.consumer.identity.sign_in import get_challenge
    from potluck.wire.signing.sign_in_answer import own_origin

    saved = load_profile_for(line.url)
    if saved is not None and saved.session is not None:
        raise BadSettings(
            f"You are signed in to {line.url} as {saved.session.address}, and that wallet is not"
            " on this machine.",
            "Sign with it again: --browser, or --key-file FILE. To use a new wallet instead, run"
            " `potluck logout` first.",
        )
    own_origin(line.url, get_challenge(line))


def sign_in_with_wallet(
    screen: Screen, line: "Transport", key_file: Path | None, invite: str | None
) -> "Tokens":
    from potluck.consumer.identity.sign_in import sign_in

    return sign_in(line, open_wallet(screen, line, key_file), invite)


def save_session(line: "Transport", tokens: "Tokens", key_file: Path | None) -> Path:
    """Saves the profile for later commands, and returns its path."""
    from potluck.consumer.identity.profile import Profile
    from potluck.consumer.identity.session import replace_profile
    from potluck.consumer.identity.sign_in import make_session

    session, ca_file = make_session(tokens), _text(line.ca_file)
    return replace_profile(line, Profile(line.url, session, ca_file, _text(key_file)))


def _sign_in_with_browser(screen: Screen, line: "Transport", invite: str | None) -> "Tokens":
    from potluck.cli.account.browser import show_page
    from potluck.consumer.identity.device_flow import ask_for_terminal, await_approval

    request = ask_for_terminal(line, invite)
    show_page(screen, request, line.url)
    return await_approval(line, request)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
