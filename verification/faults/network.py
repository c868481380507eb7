"""The network between clients and the server: calls are lost, late, or arrive twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from potluck.model.error import PotluckError
from potluck.server.services import Services
from potluck.store.database import unavailable
from verification.faults.server_instance import ServerInstance
from verification.faults.world import World

T = TypeVar("T")
Call = Callable[[Services], Coroutine[Any, Any, T]]
PATIENCE_SECONDS = 3.0


class NetworkLink:
    """One client's connection to the server; each direction may be cut separately."""

    def __init__(self, network: "Network") -> None:
        self._network = network
        self.is_cut_there = False
        self.is_cut_back = False

    async def call(self, call: Call[T]) -> T:
        """The response; raises Unavailable, after which the call may or may not have run."""
        chance = self._network.world.chance
        await self._network.travel()
        if self.is_cut_there or chance.strikes("request_lost"):
            await self._give_up()
        answer = await self._network.serve(call)
        await self._network.travel()
        if self.is_cut_back or chance.strikes("answer_lost"):
            await self._give_up()
        return answer

    async def _give_up(self) -> None:
        await asyncio.sleep(PATIENCE_SECONDS)
        raise unavailable()


class Network:
    def __init__(self, world: World, instances: list[ServerInstance]) -> None:
        self.world = world
        self.instances = instances

    async def travel(self) -> None:
        await asyncio.sleep(self.world.chance.seconds(0.0, 0.01))

    async def serve(self, call: Call[T]) -> T:
        """Runs the call on an instance; a duplicated call runs once more later."""
        chance = self.world.chance
        ready = [each for each in self.instances if each.answers]
        if not ready:
            await asyncio.sleep(0.1)
            raise unavailable()
        instance = chance.one_of(ready)
        if chance.strikes("request_twice"):
            instance.spawn(self._later(call, instance.services))
        serving = instance.spawn(call(instance.services))
        done, _ = await asyncio.wait([serving], timeout=4 * PATIENCE_SECONDS)
        if not done or serving.cancelled():
            raise unavailable()
        return serving.result()

    async def _later(self, call: Call[Any], services: Services) -> None:
        try:
            await asyncio.sleep(self.world.chance.seconds(0.0, 5.0))
            await call(services)
        except PotluckError:
            return  # no client waits for it
