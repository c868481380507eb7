"""Proxies for tests, with names that resolve as the test says."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from potluck.provider.egress.egress import Egress
from potluck.provider.egress.guard import EgressRules
from potluck.provider.egress.proxy import Proxy, ProxyLimits
from potluck.provider.egress.request import Endpoint
from potluck.provider.server.throttle import Throttle


class ScriptedNames:
    """Each name has a list of answers; the last one stays."""

    def __init__(self, addresses: Mapping[str, Sequence[Sequence[str]]] = {}) -> None:
        self._answers = {name: list(lists) for name, lists in addresses.items()}
        self.asked: list[str] = []

    async def addresses(self, host: str, port: int, account: str) -> Sequence[str]:
        self.asked.append(host)
        lists = self._answers.get(host.rstrip("."))
        if lists is None:
            raise OSError(f"{host} is not known")
        return lists.pop(0) if len(lists) > 1 else lists[0]


def proxy_to_index(
    endpoint: Endpoint, limits: ProxyLimits | None = None, throttle: Throttle | None = None
) -> Proxy:
    """As for an installation: the endpoint may have any address."""
    egress = Egress(Path("/nowhere"), throttle or Throttle())
    rules = EgressRules(trusted=frozenset({endpoint}), refusal="It is not of the index.")
    return egress.make_proxy("attempt", rules, limits or ProxyLimits())
