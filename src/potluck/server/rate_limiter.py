"""Limits call rates: anonymous callers by address, since wallets are free; accounts by id.

Counters are in `live`, so that all instances count together. A rate of zero means no limit.
"""

from potluck.live.interface import Live
from potluck.model.error import RateLimited
from potluck.server.http.peers import holders
from potluck.server.http.settings import HttpSettings

# The burst for terminal requests, in seconds of their rate.
_TERMINAL_BURST_SECONDS = 10


class Limiter:
    """Every check raises RateLimited."""

    def __init__(self, live: Live, settings: HttpSettings) -> None:
        self._live = live
        self._settings = settings

    async def check_address(self, address: str) -> None:
        """For calls without a sign-in, or with invalid credentials."""
        rate, burst = self._settings.address_requests_per_second, self._settings.address_burst
        for holder, factor in holders(address):
            await self._take(f"address:{holder}", rate * factor, burst * factor)

    async def check_guesses(self, address: str) -> None:
        """Before a secret is looked up: refuses an address without budget. Consumes nothing."""
        rate, burst = self._settings.address_requests_per_second, self._settings.address_burst
        for holder, factor in holders(address) if rate else ():
            name = _name(f"address:{holder}")
            _refuse_for(await self._live.peek(name, rate * factor, burst * factor))

    async def check_crowd(self, address: str) -> None:
        """For all signed-in calls from one address together: wallets are free."""
        rate, burst = self._settings.crowd_requests_per_second, self._settings.crowd_burst
        for holder, factor in holders(address):
            await self._take(f"crowd:{holder}", rate * factor, burst * factor)

    async def check_account(self, account_id: str) -> None:
        chosen = self._settings
        rate, burst = chosen.account_requests_per_second, chosen.account_burst
        await self._take(f"account:{account_id}", rate, burst)

    async def check_machine(self, node_key_id: str, account_id: str) -> None:
        """Each machine has the budget of an account; all of one account share a crowd's."""
        chosen = self._settings
        await self.check_account(node_key_id)
        rate, burst = chosen.crowd_requests_per_second, chosen.crowd_burst
        await self._take(f"machines:{account_id}", rate, burst)

    async def check_terminals(self) -> None:
        """For terminals that ask for approval, all together: they are still unidentified."""
        rate = self._settings.terminal_asks_per_second
        await self._take("terminals", rate, max(1, round(rate * _TERMINAL_BURST_SECONDS)))

    async def check_webhook_call(self, account_id: str) -> None:
        """For calls that make the server contact a receiver now, without the back-off."""
        rate, burst = self._settings.webhook_calls_per_second, self._settings.webhook_calls_burst
        await self._take(f"webhook:{account_id}", rate, burst)

    async def check_estimate(self, account_id: str) -> None:
        """Each estimate takes the leader's time."""
        rate, burst = self._settings.estimates_per_second, self._settings.estimates_burst
        await self._take(f"estimate:{account_id}", rate, burst)

    async def _take(self, key: str, per_second: float, burst: int) -> None:
        if per_second:
            _refuse_for(await self._live.take(_name(key), per_second, burst))


def _name(key: str) -> str:
    return f"calls:{key}"


def _refuse_for(wait_seconds: float) -> None:
    if wait_seconds:
        raise RateLimited(
            "Too many calls in a short time.", "Wait a little, and call less often.", wait_seconds
        )
