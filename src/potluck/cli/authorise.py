"""A wallet's word for the node key of this machine, before a provider starts.

The wallet's key is used here, in the command, and is gone from this process before the provider
runs in it: the program starts itself afresh, without the variables that could hold secrets.
"""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec import Struct

from potluck.cli.screen import Screen, Tone
from potluck.local.child import SECRET_VARIABLES, without_secrets

if TYPE_CHECKING:
    from potluck.consumer.transport import Transport
    from potluck.provider.identity import Authorised
    from potluck.wire.identity import Delegation

AGAIN = "--authorise"
# A word that ends sooner than this is renewed while somebody is there to sign.
_SOON_SECONDS = 3 * 86_400


class Wish(Struct, frozen=True):
    """How the owner wants to sign."""

    again: bool
    browser: bool
    invite: str | None
    key_file: Path | None
    machine: str


def is_authorised(directory: Path, url: str) -> bool:
    from potluck.provider.identity import load_authorised
    from potluck.wire.own_origin import origin_of

    known = load_authorised(directory, origin_of(url))
    return known is not None and known.expires_at > time.time() + _SOON_SECONDS


def authorise(screen: Screen, door: "Transport", directory: Path, wish: Wish) -> None:
    """Asks the wallet, here or in a browser, and keeps what it said."""
    from potluck.provider.identity import ensure_key, save_delegation

    key = ensure_key(directory)
    word = (
        _in_a_browser(screen, door, key, wish) if wish.browser else _here(screen, door, key, wish)
    )
    save_delegation(directory, word)
    if not screen.json:
        screen.err.line(f"Your wallet lets this machine's key {key} work for it.", Tone.FAINT)


def _here(screen: Screen, door: "Transport", key: str, wish: Wish) -> "Delegation":
    from potluck.cli.login import open_wallet
    from potluck.consumer import Potluck
    from potluck.consumer.delegate import authorise as sign
    from potluck.consumer.delegate import become_provider
    from potluck.consumer.sign_in import sign_in

    wallet = open_wallet(screen, wish.key_file)
    tokens = sign_in(door, wallet, wish.invite)
    with Potluck.through(door, tokens.access_token) as potluck:
        become_provider(potluck)
        word = sign(potluck, wallet, key, wish.machine)
        potluck.account.log_out()
    return word


def _in_a_browser(screen: Screen, door: "Transport", key: str, wish: Wish) -> "Authorised":
    from potluck.cli.browser import show_page
    from potluck.consumer import Potluck
    from potluck.consumer.terminal import ask_for_terminal, await_approval
    from potluck.model.error import NodeKeyRefused
    from potluck.provider.identity import Authorised

    asked = ask_for_terminal(door, wish.invite, key)
    show_page(screen, asked)
    tokens = await_approval(door, asked)
    with Potluck.through(door, tokens.access_token) as potluck:
        known = [each for each in potluck.account.node_keys() if each.key == key]
        potluck.account.log_out()
    if not known:
        raise NodeKeyRefused(
            "The wallet signed in, and did not authorise this machine's key.",
            "Run it again, and sign both things that the page asks for.",
        )
    return Authorised(known[0].origin, key, int(known[0].expires_at.timestamp()))


def holds_secrets(variables: Mapping[str, str] = os.environ) -> bool:
    return any(name in variables for name in SECRET_VARIABLES)


def start_afresh() -> NoReturn:
    """The same command in a new program: what this one knew is gone with its memory."""
    arguments = [word for word in sys.orig_argv[1:] if word != AGAIN]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], without_secrets())  # noqa: S606


def authorise_first(screen: Screen, door: "Transport", directory: Path, wish: Wish) -> None:
    """Returns in a program that needs no wallet and knows of none."""
    is_due = wish.again or not is_authorised(directory, door.url)
    if is_due:
        authorise(screen, door, directory, wish)
    if is_due or holds_secrets():
        start_afresh()
