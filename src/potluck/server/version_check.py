"""Refuses clients and nodes whose protocol this server does not speak, and says what to install."""

from collections.abc import Mapping

from potluck import __version__
from potluck.model.error import InvalidInput, UpgradeRequired
from potluck.server.services import Services
from potluck.wire.package import installers
from potluck.wire.version import (
    FIRST_PROTOCOL,
    OLDEST_PROTOCOL,
    PROTOCOL,
    PROTOCOL_HEADER,
    parse_user_agent,
)

_MOST_DIGITS = 9


def check_request(services: Services, headers: Mapping[str, str]) -> None:
    """Raises UpgradeRequired for another protocol. Programs that are not Potluck pass."""
    version = parse_user_agent(headers.get("user-agent", ""))
    protocol = headers.get(PROTOCOL_HEADER.lower())
    if protocol is not None:
        check_protocol(services, _number(protocol), version or "unknown")
    elif version is not None:
        check_protocol(services, FIRST_PROTOCOL, version)


def check_protocol(services: Services, protocol: int, version: str) -> None:
    """Raises UpgradeRequired unless both sides understand each other's messages."""
    if OLDEST_PROTOCOL <= protocol <= PROTOCOL:
        return
    spoken = str(PROTOCOL)
    if OLDEST_PROTOCOL < PROTOCOL:
        spoken = f"{OLDEST_PROTOCOL} to {PROTOCOL}"
    raise UpgradeRequired(
        f"This machine speaks protocol {protocol} (Potluck {version}),"
        f" the server speaks protocol {spoken} (Potluck {__version__}).",
        _hint(services, is_older=protocol < OLDEST_PROTOCOL),
    )


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise InvalidInput(
            f"{PROTOCOL_HEADER} is not a number.", f"Send `{PROTOCOL_HEADER}: {PROTOCOL}`."
        )
    return int(text)


def _hint(services: Services, is_older: bool) -> str:
    install = f"install Potluck {__version__}"
    if services.wheel is not None:
        has_authority = services.authority_pem is not None
        commands = installers(services.origins[0], services.wheel.package, has_authority)
        install = f"run `{commands.pip}`"
    if is_older:
        return f"Upgrade Potluck on this machine: {install}, then restart what runs there."
    return f"Ask the operator to upgrade the server, or {install} on this machine."
