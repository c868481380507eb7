"""What all proxies of a provider share."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from potluck.local.network.name_lookup import Resolver, SystemNames
from potluck.model.network.patterns import RAW
from potluck.provider.egress.byte_budget import ByteBudget, ignore
from potluck.provider.egress.guard import EgressGuard, EgressRules, OwnAddresses
from potluck.provider.egress.monthly_bytes import MonthlyBytes
from potluck.provider.egress.proxy import Proxy, ProxyLimits
from potluck.provider.egress.raw.raw_service import RawService
from potluck.provider.egress.serving_socket import remove_leftover_directories
from potluck.provider.server.throttle import Throttle


class Egress:
    """One for each provider; `directory` tells its sockets from those of others."""

    def __init__(self, directory: Path, throttle: Throttle, names: Resolver | None = None) -> None:
        self.directory = directory
        self.month = MonthlyBytes(directory / "network.json")
        self._budgets: set[ByteBudget] = set()  # of running tasks
        self.own = OwnAddresses()
        self._throttle = throttle
        self._names = names or SystemNames()

    def make_proxy(
        self,
        name: str,
        rules: EgressRules,
        limits: ProxyLimits,
        on_exhausted: Callable[[], None] = ignore,
        count: Callable[[int], object] = bool,
    ) -> Proxy:
        guard = EgressGuard(name, rules, self._names, self.own)
        budget = ByteBudget(limits.total_bytes, on_exhausted, count)
        return Proxy(guard, limits, self._throttle, budget)

    @contextlib.asynccontextmanager
    async def serving_task(
        self, name: str, hosts: tuple[str, ...], most_bytes: int, on_exhausted: Callable[[], None]
    ) -> AsyncIterator[tuple[Proxy | RawService, Path]]:
        """The way out for the code of an attempt, and its socket: a proxy, or for RAW the service
        of a packet relay."""
        way_out: Proxy | RawService
        if RAW in hosts:
            budget = ByteBudget(most_bytes, on_exhausted, self.month.count)
            way_out = RawService(name, budget, self._throttle, self._names, self.own)
        else:
            rules, limits = EgressRules(hosts), ProxyLimits(total_bytes=most_bytes)
            way_out = self.make_proxy(name, rules, limits, on_exhausted, self.month.count)
        self._budgets.add(way_out.budget)
        try:
            async with way_out.serving(self.directory) as path:
                yield way_out, path
        finally:
            self._budgets.remove(way_out.budget)
            self.month.settle()

    def committed_bytes(self) -> int:
        """Moved in this month, and what running tasks may still move."""
        return self.month.moved_bytes + sum(budget.left_bytes for budget in self._budgets)

    def reap(self) -> None:
        """Removes sockets of an earlier process; call it once at start."""
        remove_leftover_directories(self.directory)
