"""Coming in with a wallet: a challenge, the EIP-4361 message that it asks for, its signature."""

import platform
from datetime import UTC, datetime, timedelta

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport
from potluck.consumer.identity.profile import Session
from potluck.consumer.identity.wallet import Wallet
from potluck.model.error import BadSettings, NotSignedIn
from potluck.wire import routes
from potluck.wire.identity import Challenge, Login, Refresh, Tokens
from potluck.wire.signing.sign_in_answer import sign_in_text
from potluck.wire.signing.signature import text_digest

STATEMENT = "Sign in to this Potluck pool."
# A clock that is further off than this is the likely reason for a refusal.
_CLOCK = timedelta(minutes=10)


def sign_in(door: Transport, wallet: Wallet, invite: str | None = None) -> Tokens:
    """`door` is a transport without a token: there is none yet."""
    asked = challenge(door)
    now = datetime.now(UTC)
    message = sign_in_text(door.url, asked, wallet.address, STATEMENT, now)
    login = Login(message, wallet.sign(text_digest(message)), invite, machine())
    try:
        return ask(door, routes.LOGIN, Tokens, body=login)
    except NotSignedIn as error:
        if not timedelta() < asked.expires_at - now < _CLOCK:
            raise BadSettings(
                "This machine's clock and the server's differ by minutes.",
                "Set the one that is wrong, then sign in again.",
            ) from error
        raise


def refresh(door: Transport, refresh_token: str) -> Tokens:
    """The next pair. Never repeated: a refresh token that comes twice ends its session."""
    return ask(door, routes.REFRESH, Tokens, body=Refresh(refresh_token))


def challenge(line: Transport) -> Challenge:
    return ask(line, routes.CHALLENGE, Challenge)


def session_of(tokens: Tokens) -> Session:
    ends = datetime.now(UTC) + timedelta(seconds=tokens.expires_in)
    return Session(tokens.address, tokens.access_token, ends, tokens.refresh_token)


def machine() -> str:
    """What the list of sessions calls this machine."""
    return "".join(letter for letter in platform.node() if letter.isprintable())[:100]
