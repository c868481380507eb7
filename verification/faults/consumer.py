"""A simulated consumer: submits various tasks, some of them twice, and cancels some."""

import asyncio

from potluck.model.device import DeviceKind
from potluck.model.error import Conflict, UnaffordableTask, Unavailable
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import GIB, Limits, Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.server.flow.settle.cancel import cancel
from potluck.server.flow.submit.submit import submit
from verification.faults.network import NetworkLink
from verification.faults.provider import CORES
from verification.faults.world import World

SPEC = ScriptSpec("simulated.py", "pass")


class SimulatedConsumer:
    def __init__(self, world: World, link: NetworkLink, account_id: AccountId) -> None:
        self.world = world
        self.account_id = account_id
        self._link = link
        self._submitted: list[TaskId] = []

    async def run(self) -> None:
        chance = self.world.chance
        while True:
            await asyncio.sleep(chance.seconds(0.05, 1.0))
            if self._submitted and chance.happens(0.15):
                await self._cancel(chance.one_of(self._submitted))
            else:
                await self._submit()

    async def _submit(self) -> None:
        """With an idempotency key, so that it can be retried until it succeeds."""
        chance = self.world.chance
        request, key = self._request(), chance.bytes(8).hex()
        try:
            view = await self.world.persist(
                lambda: self._link.call(
                    lambda services: submit(services, self.account_id, request, key)
                )
            )
        except UnaffordableTask:
            return
        self.world.trace(f"{self.account_id} submitted {view.id} items={request.items}")
        self._submitted.append(view.id)

    async def _cancel(self, task_id: TaskId) -> None:
        self.world.trace(f"{self.account_id} cancels {task_id}")
        try:
            await self._link.call(lambda services: cancel(services, self.account_id, task_id))
        except (Conflict, Unavailable):
            return  # it had ended, or the response was lost

    def _request(self) -> TaskRequest:
        chance = self.world.chance
        items = chance.number(1, 30) if chance.happens(0.3) else None
        return TaskRequest(
            spec=SPEC,
            requirements=self._requirements(),
            limits=Limits(run_seconds=20.0, prepare_seconds=10.0),
            priority=chance.one_of([0, 0, 0, 5]),
            max_attempts=chance.number(1, 3),
            start_within_seconds=chance.one_of([None, None, None, 3.0, 10.0]),
            delay_seconds=chance.one_of([None, None, None, 1.0]),
            after=self._after(),
            items=items,
            allow_failures=chance.number(0, items) if items else 0,
        )

    def _after(self) -> tuple[TaskId, ...]:
        chance = self.world.chance
        if not self._submitted or chance.happens(0.8):
            return ()
        lately = self._submitted[-5:]
        return tuple(dict.fromkeys(chance.one_of(lately) for _ in range(chance.number(1, 2))))

    def _requirements(self) -> Requirements:
        chance = self.world.chance
        if self.world.has_large_tasks and chance.happens(0.2):
            return large_requirements(self.world)
        milli = chance.one_of([None, None, 250, 500])
        return Requirements(
            device_count=1 if milli else min(chance.one_of([1, 1, 1, 2]), self.world.most_devices),
            device_milli=milli,
            device_memory_bytes=chance.one_of([0, 4 * GIB]),
            shares_device=chance.happens(0.5),
            cores=chance.number(1, 3),
            memory_bytes=GIB,
        )


def large_requirements(world: World) -> Requirements:
    """All cores or all GPUs of the largest node."""
    if world.chance.happens(0.5):
        return Requirements(device_kind=DeviceKind.CPU, cores=CORES)
    return Requirements(device_kind=DeviceKind.GPU, device_count=world.most_devices)
