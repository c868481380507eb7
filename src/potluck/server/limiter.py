"""How often somebody may call: strangers by their address, since wallets are free; accounts by id.

It counts in `live`, so all instances count together. A rate of zero is no limit.
"""

from ipaddress import IPv6Address, ip_address, ip_network

from potluck.live.interface import Live
from potluck.model.error import RateLimited
from potluck.server.http.settings import HttpSettings

# Whoever has one address of IPv6 usually has all of these.
_ONE_HOLDER_BITS = 64


class Limiter:
    def __init__(self, live: Live, settings: HttpSettings) -> None:
        self._live = live
        self._settings = settings

    async def check_address(self, address: str) -> None:
        """For calls that nobody signed in for. Raises RateLimited."""
        chosen = self._settings
        await self._take(
            f"address:{holder(address)}", chosen.address_requests_per_second, chosen.address_burst
        )

    async def check_account(self, who: str) -> None:
        """For calls of an account, or of one of its machines. Raises RateLimited."""
        chosen = self._settings
        await self._take(f"account:{who}", chosen.account_requests_per_second, chosen.account_burst)

    async def _take(self, key: str, per_second: float, burst: int) -> None:
        if not per_second:
            return
        wait_seconds = await self._live.take(f"calls:{key}", per_second, burst)
        if wait_seconds:
            raise RateLimited(
                "There were too many calls in a short time.",
                "Wait a little, and ask less often.",
                wait_seconds,
            )


def holder(address: str) -> str:
    """What is counted as one: an address of IPv4, a network of IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    return str(ip_network((found, _ONE_HOLDER_BITS), strict=False))
