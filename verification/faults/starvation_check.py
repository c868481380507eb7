"""Checks that large tasks start in an endless stream of small ones.

After the repair, small tasks keep every device busy while an account requests a whole node, which
is never free by itself: it must be reserved within a few runs. Tasks that fit no node are submitted
as well, and must not interfere.
"""

import asyncio
from functools import partial

import msgspec

from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import GIB, Limits, Requirements, TaskRequest, TaskState
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.submit.submit import submit
from verification.faults.consumer import SPEC, large_requirements
from verification.faults.network import NetworkLink
from verification.faults.world import World

# Runs take up to two and a half seconds, and a reservation comes after one.
_SLOWNESS = 0.5
STARTS_WITHIN_SECONDS = 25.0
_LARGE_TASKS = 2
_IMPOSSIBLE = 5  # more than get reservations at a time
_LACKING = """
SELECT (SELECT count(*) FROM devices) - (SELECT count(*) FROM tasks WHERE is_waiting) AS count
"""
_TASK = "SELECT state, finished_at, requirements FROM tasks WHERE id = $1"
_LIMITS = Limits(run_seconds=20.0, prepare_seconds=10.0)


class StarvationCheck:
    def __init__(self, world: World, link: NetworkLink, people: list[AccountId]) -> None:
        self._world = world
        self._link = link
        self._patient, *self._crowd = people

    async def run(self) -> None:
        self._world.trace("large tasks among small ones")
        self._world.slowness = _SLOWNESS
        impossible = [await self._submit_impossible(number) for number in range(_IMPOSSIBLE)]
        stream = asyncio.get_running_loop().create_task(self._submit_small())
        self._world.watch(stream)
        try:
            for _ in range(_LARGE_TASKS):
                await self._await_end(
                    await self._submit(self._patient, large_requirements(self._world))
                )
        finally:
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)
        for owner, task_id in impossible:
            await self._link.call(partial(cancel, account_id=owner, task_id=task_id))

    async def _submit_impossible(self, number: int) -> tuple[AccountId, TaskId]:
        owner = self._world.chance.one_of(self._crowd)
        nothing = Requirements(device_model="none such", memory_bytes=GIB + number)
        return owner, await self._submit(owner, nothing, priority=5)

    async def _submit_small(self) -> None:
        chance = self._world.chance
        while True:
            (lacking,) = self._world.sessions.fetch(_LACKING)
            for _ in range(lacking["count"] + _IMPOSSIBLE):
                wanted = Requirements(device_kind=DeviceKind.GPU, cores=chance.number(1, 2))
                await self._submit(chance.one_of(self._crowd), wanted)
            await asyncio.sleep(0.05)

    async def _submit(self, owner: AccountId, wanted: Requirements, priority: int = 0) -> TaskId:
        request = TaskRequest(
            SPEC, requirements=wanted, limits=_LIMITS, max_attempts=3, priority=priority
        )
        key = self._world.chance.bytes(8).hex()
        view = await self._link.call(lambda services: submit(services, owner, request, key))
        return view.id

    async def _await_end(self, task_id: TaskId) -> None:
        """Fails the history if the task waits longer than a few runs for any attempt."""
        world, since = self._world, self._world.now
        while not world.broken:
            (row,) = world.sessions.fetch(_TASK, task_id)
            if row["finished_at"] is not None:
                return
            if row["state"] != TaskState.QUEUED:
                since = world.now
            if world.now - since > STARTS_WITHIN_SECONDS:
                wanted = msgspec.json.decode(row["requirements"])
                world.fail([f"{task_id} starves among smaller tasks; it requires {wanted}"])
            await asyncio.sleep(0.1)
