"""Sign-in through a browser (RFC 8628): get a code, then poll until a wallet has approved it."""

import time
from collections.abc import Callable

from potluck.consumer.http.transport import Transport, call_api
from potluck.consumer.identity.sign_in import get_machine_name
from potluck.model.error import (
    AuthorizationPending,
    CodeExpired,
    RateLimited,
    ServerUnreachable,
    SlowDown,
    Unavailable,
)
from potluck.wire import routes
from potluck.wire.identity import TerminalAsk, TerminalAsked, TerminalPoll, Tokens

# The standard adds this to the interval after each `slow_down`.
_SLOWER_SECONDS = 5.0
Sleep = Callable[[float], None]


def ask_for_terminal(
    transport: Transport, invite: str | None = None, node_key: str | None = None
) -> TerminalAsked:
    """Gets a code to show; with `node_key`, the wallet is asked to authorise that key too."""
    body = TerminalAsk(get_machine_name(), node_key, invite)
    return call_api(transport, routes.ASK_FOR_TERMINAL, TerminalAsked, body=body)


def await_approval(transport: Transport, codes: TerminalAsked, sleep: Sleep = time.sleep) -> Tokens:
    """Polls at the server's interval until the code is approved or has expired."""
    poll = TerminalPoll(codes.device_code)
    interval, waited = codes.interval, 0.0
    while waited <= codes.expires_in:
        sleep(interval)
        waited += interval
        try:
            return call_api(transport, routes.TERMINAL_TOKEN, Tokens, body=poll)
        except AuthorizationPending:
            continue
        except SlowDown:
            interval += _SLOWER_SECONDS
        except (ServerUnreachable, Unavailable, RateLimited):
            interval *= 2  # as the standard requires without an answer
    raise CodeExpired("The sign-in was not approved in time.", "Ask for a new code.")
