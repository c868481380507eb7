"""How often somebody may call: strangers by their address, since wallets are free; accounts by id.

It counts in `live`, so all instances count together. A rate of zero is no limit.
"""

from potluck.live.interface import Live
from potluck.model.error import RateLimited
from potluck.server.http.peers import holders
from potluck.server.http.settings import HttpSettings

# How many seconds' worth of terminals may ask at once.
_ASKING_SECONDS = 10


class Limiter:
    """Every check raises RateLimited."""

    def __init__(self, live: Live, settings: HttpSettings) -> None:
        self._live = live
        self._settings = settings

    async def check_address(self, address: str) -> None:
        """For calls that nobody signed in for, and those that tried with what does not hold."""
        rate, burst = self._settings.address_requests_per_second, self._settings.address_burst
        for who, times in holders(address):
            await self._take(f"address:{who}", rate * times, burst * times)

    async def check_guesses(self, address: str) -> None:
        """Before a secret is looked up: not for an address that has nothing left. Takes nothing."""
        rate, burst = self._settings.address_requests_per_second, self._settings.address_burst
        for who, times in holders(address) if rate else ():
            name = _name(f"address:{who}")
            _refuse_for(await self._live.peek(name, rate * times, burst * times))

    async def check_crowd(self, address: str) -> None:
        """For calls of people and machines of one address, whoever they are: wallets are free."""
        rate, burst = self._settings.crowd_requests_per_second, self._settings.crowd_burst
        for who, times in holders(address):
            await self._take(f"crowd:{who}", rate * times, burst * times)

    async def check_account(self, account_id: str) -> None:
        chosen = self._settings
        rate, burst = chosen.account_requests_per_second, chosen.account_burst
        await self._take(f"account:{account_id}", rate, burst)

    async def check_machine(self, node_key_id: str, account_id: str) -> None:
        """Each has the measure of an account, and all of one account that of a crowd."""
        chosen = self._settings
        await self.check_account(node_key_id)
        rate, burst = chosen.crowd_requests_per_second, chosen.crowd_burst
        await self._take(f"machines:{account_id}", rate, burst)

    async def check_terminals(self) -> None:
        """For terminals that ask to be let in, all together: nobody knows yet who they are."""
        rate = self._settings.terminal_asks_per_second
        await self._take("terminals", rate, max(1, round(rate * _ASKING_SECONDS)))

    async def check_webhook_call(self, account_id: str) -> None:
        """Whatever makes the server call somebody at once, past the pauses of one that fails."""
        rate, burst = self._settings.webhook_calls_per_second, self._settings.webhook_calls_burst
        await self._take(f"webhook:{account_id}", rate, burst)

    async def check_estimate(self, account_id: str) -> None:
        """Each is thought about by the leader, who has other work."""
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
            "There were too many calls in a short time.",
            "Wait a little, and ask less often.",
            wait_seconds,
        )
