"""Values of examples about signing in."""

from typing import Final

from potluck.server.api.examples.names import ORIGIN
from potluck.wire.signing.sign_in_message import SignIn, write

NONCE: Final = "7Jk3mQ9xT2vB6cR8wL5d"
ACCESS_TOKEN: Final = "eyJhbGciOiJIUzI1NiJ9.e30.not-a-real-token"  # noqa: S105


def login_message(address: str, statement: str | None = None) -> str:
    signed = SignIn(
        domain=ORIGIN.partition("://")[2],
        address=address,
        uri=ORIGIN,
        version="1",
        chain_id=1,
        nonce=NONCE,
        issued_at="2026-11-16T09:30:00Z",
        statement=statement,
    )
    return write(signed)
