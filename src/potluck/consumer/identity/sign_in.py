"""Sign-in with a wallet: challenge, EIP-4361 message, signature."""

import platform
from datetime import UTC, datetime, timedelta

from potluck.consumer.http.transport import Transport, call_api
from potluck.consumer.identity.profile import Session
from potluck.consumer.identity.wallet import Wallet
from potluck.model.bounded_types import replace_deceiving
from potluck.model.error import BadSettings, NotSignedIn
from potluck.wire import routes
from potluck.wire.identity import Challenge, Login, Refresh, Tokens
from potluck.wire.signing.sign_in_answer import sign_in_text
from potluck.wire.signing.signature import text_digest

STATEMENT = "Sign in to this Potluck pool."
# A larger difference between the clocks is the likely reason for a refusal.
_CLOCK = timedelta(minutes=10)


def sign_in(transport: Transport, wallet: Wallet, invite: str | None = None) -> Tokens:
    """Signs in through an anonymous transport."""
    nonce = get_challenge(transport)
    now = datetime.now(UTC)
    message = sign_in_text(transport.url, nonce, wallet.address, STATEMENT, now)
    login = Login(message, wallet.sign(text_digest(message)), invite, get_machine_name())
    try:
        return call_api(transport, routes.LOGIN, Tokens, body=login)
    except NotSignedIn as error:
        if not timedelta() < nonce.expires_at - now < _CLOCK:
            raise BadSettings(
                "This machine's clock and the server's differ by minutes.",
                "Correct the wrong one, then sign in again.",
            ) from error
        raise


def refresh(transport: Transport, refresh_token: str) -> Tokens:
    """The next pair of tokens. Never retried: using a refresh token twice ends its session."""
    return call_api(transport, routes.REFRESH, Tokens, body=Refresh(refresh_token))


def get_challenge(transport: Transport) -> Challenge:
    return call_api(transport, routes.CHALLENGE, Challenge)


def make_session(tokens: Tokens) -> Session:
    ends = datetime.now(UTC) + timedelta(seconds=tokens.expires_in)
    return Session(tokens.address, tokens.access_token, ends, tokens.refresh_token)


def get_machine_name() -> str:
    """This machine's name in the list of sessions."""
    return replace_deceiving(platform.node(), "")[:100]
