"""Injects faults into machines and server instances, and repairs them at the end."""

import asyncio
from collections.abc import Awaitable, Callable

from verification.faults.network import Network, NetworkLink
from verification.faults.provider import SimulatedProvider
from verification.faults.server_instance import ServerInstance
from verification.faults.world import World


class FaultInjector:
    def __init__(
        self,
        world: World,
        network: Network,
        providers: list[SimulatedProvider],
        links: list[NetworkLink],
    ) -> None:
        self._world = world
        self._network = network
        self._providers = providers
        self._links = links
        self._born = 0
        self._kinds: tuple[Callable[[], Awaitable[None]], ...] = (
            self._kill_provider,
            self._kill_provider,
            self._cut_link,
            self._cut_link,
            self._take_node_away,
            self._kill_instance,
            self._pause_instance,
            self._jump,
        )

    def begin(self) -> None:
        for _ in range(self._world.plan.instances):
            self._network.instances.append(self._new_instance())
        for provider in self._providers:
            provider.start()

    async def run(self) -> None:
        """Faults are more frequent in a larger pool."""
        chance = self._world.chance
        busy = max(1.0, len(self._providers) / 10)
        while True:
            await asyncio.sleep(chance.seconds(0.05, 1.5) / busy)
            await chance.one_of(self._kinds)()

    async def change_owners(self) -> None:
        """Owners change their terms and devices as often as everything else fails."""
        chance = self._world.chance
        busy = max(1.0, len(self._providers) / 10)
        while True:
            await asyncio.sleep(chance.seconds(0.05, 1.0) / busy)
            self._change_owner()

    async def repair_all(self) -> None:
        """Ends all faults: everything is up and connected, and stays so."""
        self._world.chance.heal()
        for link in self._links:
            link.is_cut_there = link.is_cut_back = False
        for instance in list(self._network.instances):
            instance.resume()
        while len(self._network.instances) < self._world.plan.instances:
            self._network.instances.append(self._new_instance())
        for provider in self._providers:
            provider.owner.restore()
            if not provider.is_up:
                provider.start()

    async def end(self) -> None:
        for provider in self._providers:
            await provider.kill()
        for instance in self._network.instances:
            await instance.kill()

    async def _kill_provider(self) -> None:
        chance = self._world.chance
        provider = chance.one_of(self._providers)
        if not provider.is_up:
            return
        forgets = chance.happens(0.2)
        self._happened("provider_wiped" if forgets else "provider_killed", provider.name)
        await provider.kill(forgets=forgets)
        self._later(chance.seconds(0.1, 8.0), provider.start)

    async def _take_node_away(self) -> None:
        provider = self._world.chance.one_of(self._providers)
        if provider.is_up and self._world.chance.happens(0.5):
            self._happened("node_left", provider.name)
            await provider.leave()
            self._later(self._world.chance.seconds(0.1, 3.0), provider.start)

    def _change_owner(self) -> None:
        """An owner changes the terms, or a device its state."""
        chance = self._world.chance
        provider = chance.one_of(self._providers)
        change, act = chance.one_of(
            [
                ("device_paused", provider.owner.pause),
                ("device_reclaimed", provider.give_back),
                ("device_sick", provider.lose_device),
                ("terms_changed", provider.owner.change_terms),
            ]
        )
        if provider.is_up:
            self._happened(change, provider.name)
            act()

    async def _cut_link(self) -> None:
        """Cuts one direction or both."""
        chance = self._world.chance
        provider = chance.one_of(self._providers)
        link, way = provider.link, chance.one_of(["there", "back", "both"])
        self._happened(f"cut_{way}", provider.name)
        link.is_cut_there = way != "back"
        link.is_cut_back = way != "there"

        def mend() -> None:
            link.is_cut_there = link.is_cut_back = False

        self._later(chance.seconds(0.5, 10.0), mend)

    async def _kill_instance(self) -> None:
        chance, instances = self._world.chance, self._network.instances
        if not instances:
            return
        instance = chance.one_of(instances)
        instances.remove(instance)
        in_order = chance.happens(0.5)
        self._happened("instance_stopped" if in_order else "instance_killed", instance.name)
        await (instance.stop() if in_order else instance.kill())
        self._later(chance.seconds(0.1, 5.0), self._replace_instance)

    async def _pause_instance(self) -> None:
        chance, instances = self._world.chance, self._network.instances
        if instances:
            instance = chance.one_of(instances)
            self._happened("instance_paused", instance.name)
            instance.pause()
            self._later(chance.seconds(0.5, 6.0), instance.resume)

    async def _jump(self) -> None:
        seconds = self._world.chance.one_of([0.5, 3.0, 30.0])
        self._happened("clock_jumped", f"{seconds} s")
        self._world.jump(seconds)

    def _replace_instance(self) -> None:
        if len(self._network.instances) < self._world.plan.instances:
            self._network.instances.append(self._new_instance())

    def _new_instance(self) -> ServerInstance:
        self._born += 1
        return ServerInstance(self._world, f"instance-{self._born}")

    def _happened(self, fault: str, whom: str) -> None:
        self._world.chance.note(fault)
        self._world.trace(f"{fault} {whom}")

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, self._unless_repaired, act)

    def _unless_repaired(self, act: Callable[[], None]) -> None:
        if not self._world.is_repaired:
            act()
