"""Drafts what a wallet signs for a terminal, so that the page only passes it on."""

from datetime import datetime, timedelta

from potluck.model.error import InvalidInput
from potluck.server.auth.device_flow.pending_terminals import Pending
from potluck.server.auth.nonce import new_nonce
from potluck.server.services import Services
from potluck.wire.identity import Delegation, TerminalDraft, TerminalWallet
from potluck.wire.signing import sign_in_message
from potluck.wire.signing.address import checksummed
from potluck.wire.signing.delegation import NODE_SCOPES, lasting_seconds, typed_data
from potluck.wire.signing.sign_in_answer import TERMINAL_STATEMENT
from potluck.wire.signing.sign_in_message import SignIn


def statement(pending: Pending) -> str:
    """Names the code, so that the signature is valid for this terminal only."""
    text = f"{TERMINAL_STATEMENT}{pending.user_code}"
    if pending.node_key is None:
        return f"{text}."
    return f"{text}, and let its node key {pending.node_key} work for me."


def draft(
    services: Services, pending: Pending, wallet: TerminalWallet, now: datetime
) -> TerminalDraft:
    if wallet.origin not in services.origins:
        raise InvalidInput(
            f"The page was opened at {wallet.origin}, which is not an address of this server.",
            f"Open {services.origins[0]}/device instead.",
        )
    chain_id, address = _chain(services, wallet.chain_id), checksummed(wallet.address)
    message = SignIn(
        domain=wallet.origin.partition("://")[2],
        address=address,
        uri=f"{wallet.origin}/device",
        version="1",
        chain_id=chain_id,
        nonce=new_nonce(services.keys.nonce, now),
        issued_at=_written(now),
        expiration_time=_written(now + timedelta(seconds=services.settings.nonce_seconds)),
        statement=statement(pending),
    )
    text = sign_in_message.write(message)
    if pending.node_key is None:
        return TerminalDraft(text, chain_id)
    word = Delegation(
        wallet=address,
        key=pending.node_key,
        origin=wallet.origin,
        scopes=NODE_SCOPES,
        issued_at=int(now.timestamp()),
        expires_at=int(now.timestamp()) + lasting_seconds(services.settings.node_key_seconds),
        nonce=new_nonce(services.keys.nonce, now),
        signature="0x",
    )
    return TerminalDraft(text, chain_id, word, typed_data(word))


def _chain(services: Services, of_wallet: int) -> int:
    """The wallet's own chain if the server supports it, which a contract wallet needs.

    Otherwise the server's first: a key's signature does not depend on the chain, so the
    wallet's chain need not be switched to sign in.
    """
    chain_ids = services.settings.chain_ids
    return of_wallet if of_wallet in chain_ids else chain_ids[0]


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
