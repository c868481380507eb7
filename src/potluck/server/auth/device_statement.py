"""Verifies the node key's statements about the devices that it registers."""

from datetime import datetime

from potluck.model.error import InvalidInput
from potluck.server.services import Services
from potluck.store.identity import node_keys
from potluck.store.nodes.nodes import Owner
from potluck.wire.provider import RegisterNode
from potluck.wire.signing.device_statement import DeviceStatement, statement_digest
from potluck.wire.signing.signature import recover


async def check(services: Services, owner: Owner, offer: RegisterNode, now: datetime) -> None:
    """Raises InvalidInput if a statement is missing or not valid here and now."""
    assert owner.node_key_id is not None, "only a node key registers a node"
    async with services.database.transaction() as connection:
        key = await node_keys.address(connection, owner.node_key_id)
    stated = {item.uuid for item in offer.statements if _is_valid(services, item, key, now)}
    for device in offer.description.devices:
        if device.uuid not in stated:
            raise InvalidInput(
                f"The device {device.uuid} has no valid statement of the node key.",
                "Check this machine's clock, and use an address from the server's list of origins.",
            )


def _is_valid(services: Services, statement: DeviceStatement, key: str, now: datetime) -> bool:
    if statement.origin not in services.origins:
        return False
    if abs(now.timestamp() - statement.stated_at) > services.settings.nonce_seconds:
        return False
    digest = statement_digest(statement.uuid, key, statement.origin, statement.stated_at)
    signed = statement.signature.removeprefix("0x")
    return len(signed) % 2 == 0 and recover(digest, bytes.fromhex(signed)) == key
