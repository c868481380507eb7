"""How long the client waits, how often it tries again, and when it gives up."""

import random

from msgspec import Struct

from potluck.model.backoff import BackOff


class Patience(Struct, frozen=True):
    """All times of the client. The defaults suit a person; tests use tenths of seconds."""

    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    tries: int = 4  # of a call that may be repeated
    back_off: BackOff = BackOff(first_seconds=0.1, longest_seconds=5.0)
    # A server that asks for a longer pause than this is reported instead of waited for.
    longest_asked_pause_seconds: float = 30.0
    # The server writes a keep-alive every ten seconds, so three missing ones mean a dead line.
    silence_seconds: float = 30.0
    give_up_seconds: float = 120.0  # a follower, or a transfer, without a line to the server
    renew_seconds: float = 30.0  # an access token with less than this left is renewed first

    def pause_seconds(self, failures: int, asked_seconds: float | None = None) -> float:
        """What was asked for and a little more, so that a crowd does not return as one."""
        assert failures >= 1
        return self.back_off.seconds(failures, random.random()) + (asked_seconds or 0.0)

    def accepts(self, asked_seconds: float | None) -> bool:
        return asked_seconds is None or asked_seconds <= self.longest_asked_pause_seconds
