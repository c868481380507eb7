"""A wallet's word for the node key of this machine, before a provider starts.

The wallet's key is used here, in the command, and is gone from this process before the provider
runs in it: the program starts itself afresh, without the variables that could hold secrets.
"""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from potluck.cli.terminal.screen import Screen, Tone
from potluck.local.child_process import SECRET_VARIABLES, without_secrets

if TYPE_CHECKING:
    from potluck.consumer.http.transport import Transport
    from potluck.provider.server.node_key import Authorised
    from potluck.wire.identity import Delegation

AGAIN = "--authorise"
# A word of whose time less than this is left is renewed while somebody is there to sign.
_SOON = 0.1
# Told to the program that we become: whatever it finds, it does not ask again.
ASKED = "POTLUCKASKED"
_INVITE = "--invite"


class Signing(Struct, frozen=True):
    """How the owner wants to sign."""

    again: bool
    browser: bool
    invite: str | None
    key_file: Path | None
    machine: str


def is_authorised(directory: Path, url: str) -> bool:
    from potluck.provider.server.node_key import load_authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    known = load_authorised(directory, origin_of(url))
    if known is None:
        return False
    soon = (known.expires_at - known.issued_at) * _SOON
    return known.expires_at > time.time() + soon


def has_ended(directory: Path, url: str) -> bool:
    """Whether the wallet's word was for a time that is over."""
    from potluck.provider.server.node_key import load_authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    known = load_authorised(directory, origin_of(url))
    return known is not None and known.expires_at <= time.time()


def authorise(screen: Screen, door: "Transport", directory: Path, signing: Signing) -> None:
    """Asks the wallet, here or in a browser, and keeps what it said."""
    from potluck.provider.server.node_key import ensure_key, save_delegation

    key = ensure_key(directory)
    word = (
        _in_a_browser(screen, door, key, signing)
        if signing.browser
        else _here(screen, door, key, signing)
    )
    save_delegation(directory, word)
    if not screen.json:
        screen.err.line(f"Your wallet lets this machine's key {key} work for it.", Tone.FAINT)


def _here(screen: Screen, door: "Transport", key: str, signing: Signing) -> "Delegation":
    from potluck.cli.account.login import chosen_key_file, open_wallet
    from potluck.consumer import Potluck
    from potluck.consumer.identity.delegate import authorise as sign
    from potluck.consumer.identity.delegate import become_provider
    from potluck.consumer.identity.sign_in import sign_in

    wallet = open_wallet(screen, door, chosen_key_file(door.url, signing.key_file))
    tokens = sign_in(door, wallet, signing.invite)
    with Potluck.through(door, tokens.access_token) as potluck:
        become_provider(potluck)
        word = sign(potluck, wallet, key, signing.machine)
        potluck.account.log_out()
    return word


def _in_a_browser(screen: Screen, door: "Transport", key: str, signing: Signing) -> "Authorised":
    from potluck.cli.account.browser import show_page
    from potluck.consumer import Potluck
    from potluck.consumer.identity.device_flow import ask_for_terminal, await_approval
    from potluck.model.error import NodeKeyRefused
    from potluck.provider.server.node_key import Authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    asked = ask_for_terminal(door, signing.invite, key)
    show_page(screen, asked, door.url)
    tokens = await_approval(door, asked)
    with Potluck.through(door, tokens.access_token) as potluck:
        known = [each for each in potluck.account.node_keys() if each.key == key]
        potluck.account.log_out()
    if not known:
        raise NodeKeyRefused(
            "The wallet signed in, and did not authorise this machine's key.",
            "Run it again, and sign both things that the page asks for.",
        )
    # The page may have another name of the same server; we look for the one that was typed.
    held = known[0]
    begins, ends = int(held.issued_at.timestamp()), int(held.expires_at.timestamp())
    return Authorised(origin_of(door.url), key, begins, ends)


def holds_secrets(variables: Mapping[str, str] = os.environ) -> bool:
    return any(name in variables for name in SECRET_VARIABLES)


def start_afresh() -> NoReturn:
    """The same command in a new program: what this one knew is gone with its memory."""
    command = [sys.executable, *_without_what_was_for_us(sys.orig_argv[1:])]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, {**without_secrets(), ASKED: "1"})  # noqa: S606


def _without_what_was_for_us(words: Sequence[str]) -> list[str]:
    """An invite is a secret, and a command line is not: everybody here can read it."""
    kept: list[str] = []
    for before, word in pairwise(("", *words)):
        if word in (AGAIN, _INVITE) or before == _INVITE or word.startswith(f"{_INVITE}="):
            continue
        kept.append(word)
    return kept


def authorise_first(screen: Screen, door: "Transport", directory: Path, signing: Signing) -> None:
    """Returns in a program that needs no wallet and knows of none."""
    if os.environ.pop(ASKED, None) is not None:
        return
    is_due = signing.again or not is_authorised(directory, door.url)
    if is_due:
        authorise(screen, door, directory, signing)
    if is_due or holds_secrets() or signing.invite is not None:
        start_afresh()
