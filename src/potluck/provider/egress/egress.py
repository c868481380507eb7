"""What all proxies of a provider share."""

import contextlib
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from potluck.local.network.name_lookup import Resolver, SystemNames
from potluck.provider.egress.guard import EgressGuard, EgressRules, OwnAddresses
from potluck.provider.egress.monthly_bytes import MonthlyBytes
from potluck.provider.egress.proxy import Proxy, ProxyLimits, ignore, leftover_directories
from potluck.provider.server.throttle import Throttle


class Egress:
    """One for each provider; `directory` tells its sockets from those of others."""

    def __init__(self, directory: Path, throttle: Throttle, names: Resolver | None = None) -> None:
        self.directory = directory
        self.month = MonthlyBytes(directory / "network.json")
        self._tasks: dict[Proxy, int] = {}  # proxies of tasks, and the most that each may move
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
        return Proxy(guard, limits, self._throttle, on_exhausted, count)

    @contextlib.asynccontextmanager
    async def serving_task(
        self, name: str, hosts: tuple[str, ...], most_bytes: int, on_exhausted: Callable[[], None]
    ) -> AsyncIterator[tuple[Proxy, Path]]:
        """The proxy for the code of an attempt, and its socket."""
        rules, limits = EgressRules(hosts), ProxyLimits(total_bytes=most_bytes)
        proxy = self.make_proxy(name, rules, limits, on_exhausted, self.month.count)
        self._tasks[proxy] = most_bytes
        try:
            async with proxy.serving(self.directory) as path:
                yield proxy, path
        finally:
            del self._tasks[proxy]
            self.month.settle()

    def committed_bytes(self) -> int:
        """Moved in this month, and what running tasks may still move."""
        open_bytes = sum(most - proxy.spent_bytes for proxy, most in self._tasks.items())
        return self.month.moved_bytes + open_bytes

    def reap(self) -> None:
        """Removes sockets of an earlier process; call it once at start.

        Any user can create such a temporary name, so only directories of our user are touched.
        """
        for directory in leftover_directories(self.directory):
            with contextlib.suppress(OSError):
                status = directory.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    shutil.rmtree(directory, ignore_errors=True)
