"""Delegations: a wallet authorises a node key to work for it at one server."""

from datetime import UTC, datetime

from msgspec.structs import replace

from potluck.consumer.client import Potluck
from potluck.consumer.identity.wallet import Wallet
from potluck.model.account import Role
from potluck.wire.identity import Delegation
from potluck.wire.signing.delegation import NODE_SCOPES, digest, lasting_seconds
from potluck.wire.signing.sign_in_answer import own_origin


def become_provider(client: Potluck) -> None:
    """Adds the provider role, which authorising node keys requires."""
    roles = client.account.me().roles
    if Role.PROVIDER not in roles:
        client.account.choose_roles([*roles, Role.PROVIDER])


def authorise(client: Potluck, wallet: Wallet, key_address: str, machine: str) -> Delegation:
    """Signs a delegation, registers it at the server and returns it for the provider to store."""
    challenge = client.account.challenge()
    now = int(datetime.now(UTC).timestamp())
    unsigned = Delegation(
        wallet=wallet.address,
        key=key_address,
        origin=own_origin(client.url, challenge),
        scopes=NODE_SCOPES,
        issued_at=now,
        expires_at=now + lasting_seconds(challenge.node_key_seconds),
        nonce=challenge.nonce,
        signature="0x",
    )
    signed = replace(unsigned, signature=wallet.sign(digest(unsigned)))
    client.account.authorise_node_key(signed, machine)
    return signed
