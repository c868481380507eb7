"""A wallet's word that a node key may work for it, at the server that we speak to."""

from datetime import UTC, datetime

import msgspec

from potluck.consumer.client import Potluck
from potluck.consumer.identity.wallet import Wallet
from potluck.model.account import Role
from potluck.wire.identity import Delegation
from potluck.wire.signing.delegation import NODE_SCOPES, digest, lasting_seconds
from potluck.wire.signing.sign_in_answer import own_origin


def become_provider(client: Potluck) -> None:
    """Whoever lets a node key work for them is a provider."""
    roles = client.account.me().roles
    if Role.PROVIDER not in roles:
        client.account.choose_roles([*roles, Role.PROVIDER])


def authorise(client: Potluck, wallet: Wallet, key_address: str, machine: str) -> Delegation:
    """Signs it and hands it to the server; the answer is what the provider keeps."""
    asked = client.account.challenge()
    now = int(datetime.now(UTC).timestamp())
    word = Delegation(
        wallet=wallet.address,
        key=key_address,
        origin=own_origin(client.url, asked),
        scopes=NODE_SCOPES,
        issued_at=now,
        expires_at=now + lasting_seconds(asked.node_key_seconds),
        nonce=asked.nonce,
        signature="0x",
    )
    signed = msgspec.structs.replace(word, signature=wallet.sign(digest(word)))
    client.account.authorise_node_key(signed, machine)
    return signed
