"""Coming in through a browser (RFC 8628): ask for a code, then poll until a wallet has signed."""

import time
from collections.abc import Callable

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport
from potluck.consumer.identity.sign_in import machine
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

# What the standard adds to the interval when the server finds us too eager.
_SLOWER_SECONDS = 5.0
Sleep = Callable[[float], None]


def ask_for_terminal(
    door: Transport, invite: str | None = None, node_key: str | None = None
) -> TerminalAsked:
    """The code for the person; with `node_key`, the wallet is asked to authorise that too."""
    wanted = TerminalAsk(machine(), node_key, invite)
    return ask(door, routes.ASK_FOR_TERMINAL, TerminalAsked, body=wanted)


def await_approval(door: Transport, asked: TerminalAsked, sleep: Sleep = time.sleep) -> Tokens:
    """Polls at the server's pace until somebody has approved it, or the code is too old."""
    poll = TerminalPoll(asked.device_code)
    interval, waited = asked.interval, 0.0
    while waited <= asked.expires_in:
        sleep(interval)
        waited += interval
        try:
            return ask(door, routes.TERMINAL_TOKEN, Tokens, body=poll)
        except AuthorizationPending:
            continue
        except SlowDown:
            interval += _SLOWER_SECONDS
        except (ServerUnreachable, Unavailable, RateLimited):
            interval *= 2  # as the standard asks of those who hear nothing
    raise CodeExpired("Nobody approved it in time.", "Ask for a new code.")
