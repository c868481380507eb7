"""The sign-in message that answers a challenge, bound to the server that the client talks to.

A server that relays the challenge of another server gets no message that is valid there.
"""

from datetime import datetime
from urllib.parse import urlsplit

from potluck.model.error import BadSettings
from potluck.wire.identity import Challenge
from potluck.wire.signing.sign_in_message import SignIn, write

# Statements of messages that are not logins, so that none of them can pass as one.
NODE_STATEMENT = "This node key signs in to work for its wallet."
TERMINAL_STATEMENT = "Sign in the terminal that shows the code "  # followed by the code


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def own_origin(url: str, challenge: Challenge) -> str:
    """The origin of the server's address. Raises BadSettings if the server does not list it."""
    origin = origin_of(url)
    if origin not in challenge.origins:
        listed = challenge.origins[0] if challenge.origins else "nothing"
        raise BadSettings(
            f"The server at {url} uses the address {listed}, not {origin}.",
            "Use that address, or ask its operator to add this one with --public-url.",
        )
    return origin


def sign_in_text(
    url: str, challenge: Challenge, address: str, statement: str, now: datetime
) -> str:
    """The EIP-4361 message to sign."""
    origin = own_origin(url, challenge)
    return write(
        SignIn(
            domain=origin.partition("://")[2],
            address=address,
            statement=statement,
            uri=origin,
            version="1",
            chain_id=challenge.chain_ids[0],  # a key's signature is valid on every chain
            nonce=challenge.nonce,
            issued_at=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        )
    )
