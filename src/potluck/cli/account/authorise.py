"""A wallet authorises the node key of this machine before a provider starts.

The command uses the wallet's key, then replaces its process before it runs the provider, so the
provider's memory and environment hold no secrets.
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
from potluck.local.child_process import SECRET_VARIABLES, environment_without_secrets

if TYPE_CHECKING:
    from potluck.consumer.http.transport import Transport
    from potluck.provider.server.node_key import Authorised
    from potluck.wire.identity import Delegation

AUTHORISE_OPTION = "--authorise"
# An authorisation with less than this fraction of its lifetime left is renewed.
_RENEW_FRACTION = 0.1
# Tells the restarted program not to ask for a signature again.
AUTHORISED_VARIABLE = "POTLUCKASKED"
_INVITE = "--invite"


class SigningOptions(Struct, frozen=True):
    """How the owner signs."""

    again: bool
    browser: bool
    invite: str | None
    key_file: Path | None
    machine: str


def is_authorised(directory: Path, url: str) -> bool:
    from potluck.provider.server.node_key import load_authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    authorisation = load_authorised(directory, origin_of(url))
    if authorisation is None:
        return False
    margin_seconds = (authorisation.expires_at - authorisation.issued_at) * _RENEW_FRACTION
    return authorisation.expires_at > time.time() + margin_seconds


def has_expired(directory: Path, url: str) -> bool:
    """Whether there is an authorisation that has expired."""
    from potluck.provider.server.node_key import load_authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    authorisation = load_authorised(directory, origin_of(url))
    return authorisation is not None and authorisation.expires_at <= time.time()


def authorise(
    screen: Screen, transport: "Transport", directory: Path, signing: SigningOptions
) -> None:
    """Lets the wallet sign, here or in a browser, and saves the authorisation."""
    from potluck.provider.server.node_key import ensure_key, save_delegation

    key = ensure_key(directory)
    delegation = (
        _sign_in_browser(screen, transport, key, signing)
        if signing.browser
        else _sign_here(screen, transport, key, signing)
    )
    save_delegation(directory, delegation)
    if not screen.json:
        screen.err.line(f"Your wallet has authorised this machine's key {key}.", Tone.FAINT)


def _sign_here(
    screen: Screen, transport: "Transport", key: str, signing: SigningOptions
) -> "Delegation":
    from potluck.cli.account.login import choose_key_file, open_wallet
    from potluck.consumer import Potluck
    from potluck.consumer.identity.delegate import authorise as sign
    from potluck.consumer.identity.delegate import become_provider
    from potluck.consumer.identity.sign_in import sign_in

    wallet = open_wallet(screen, transport, choose_key_file(transport.url, signing.key_file))
    tokens = sign_in(transport, wallet, signing.invite)
    with Potluck.through(transport, tokens.access_token) as potluck:
        become_provider(potluck)
        delegation = sign(potluck, wallet, key, signing.machine)
        potluck.account.log_out()
    return delegation


def _sign_in_browser(
    screen: Screen, transport: "Transport", key: str, signing: SigningOptions
) -> "Authorised":
    from potluck.cli.account.browser import show_page
    from potluck.consumer import Potluck
    from potluck.consumer.identity.device_flow import ask_for_terminal, await_approval
    from potluck.model.error import NodeKeyRefused
    from potluck.provider.server.node_key import Authorised
    from potluck.wire.signing.sign_in_answer import origin_of

    request = ask_for_terminal(transport, signing.invite, key)
    show_page(screen, request, transport.url)
    tokens = await_approval(transport, request)
    with Potluck.through(transport, tokens.access_token) as potluck:
        matching = [node_key for node_key in potluck.account.node_keys() if node_key.key == key]
        potluck.account.log_out()
    if not matching:
        raise NodeKeyRefused(
            "The wallet signed in, but did not authorise this machine's key.",
            "Run the command again, and sign both requests on the page.",
        )
    # The page may use another name of the same server; keep the name that the user typed.
    node_key = matching[0]
    begins, ends = int(node_key.issued_at.timestamp()), int(node_key.expires_at.timestamp())
    return Authorised(origin_of(transport.url), key, begins, ends)


def holds_secrets(variables: Mapping[str, str] = os.environ) -> bool:
    return any(name in variables for name in SECRET_VARIABLES)


def restart_program() -> NoReturn:
    """Replaces this process with the same command, so its memory is gone."""
    command = [sys.executable, *_strip_signing_options(sys.orig_argv[1:])]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, command, {**environment_without_secrets(), AUTHORISED_VARIABLE: "1"})  # noqa: S606


def _strip_signing_options(words: Sequence[str]) -> list[str]:
    """Also removes the invite: it is a secret, and all local users can read command lines."""
    result: list[str] = []
    for before, word in pairwise(("", *words)):
        if (
            word in (AUTHORISE_OPTION, _INVITE)
            or before == _INVITE
            or word.startswith(f"{_INVITE}=")
        ):
            continue
        result.append(word)
    return result


def ensure_authorised(
    screen: Screen, transport: "Transport", directory: Path, signing: SigningOptions
) -> None:
    """Returns only in a process that needs no wallet and holds no secrets."""
    if os.environ.pop(AUTHORISED_VARIABLE, None) is not None:
        return
    is_due = signing.again or not is_authorised(directory, transport.url)
    if is_due:
        authorise(screen, transport, directory, signing)
    if is_due or holds_secrets() or signing.invite is not None:
        restart_program()
