"""A simulated provider, which can be killed and keeps its journal."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.error import NotFound, Unavailable
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import Lease
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.task import GIB, EndReason
from potluck.model.terms import DeviceTerms
from potluck.model.usage import Usage
from potluck.server.flow.lease import lease
from potluck.server.flow.report import report
from potluck.store.nodes.nodes import Owner
from potluck.wire.provider import (
    AcquireLeases,
    Finished,
    Grant,
    Heartbeat,
    ItemOutcome,
    ItemsDone,
    Preparing,
    RegisterNode,
    Report,
    Reports,
    Started,
)
from verification.faults.network import NetworkLink
from verification.faults.owner_behaviour import OwnerBehaviour
from verification.faults.world import World

CORES = 8  # that the largest nodes have
_FAILURES = (EndReason.EXIT_STATUS, EndReason.SIGNAL, EndReason.SANDBOX_FAILED)


class HeldLease(Struct):
    """A lease in the journal, with the reports that the server has not acknowledged."""

    grant: Grant
    ready_at: float  # time of its next step
    items: list[int]  # of an array: still to run
    is_begun: bool = False
    is_over: bool = False
    unsaid: list[Report] = []

    @property
    def lease(self) -> Lease:
        return Lease(self.grant.attempt_id, self.grant.token)


class SimulatedProvider:
    """A process that restarts on a machine whose disk persists."""

    def __init__(
        self, world: World, link: NetworkLink, owner: Owner, machine: tuple[str, int]
    ) -> None:
        self.world = world
        self.link = link
        self.name, gpus = machine
        self._owner = owner
        self.owner = OwnerBehaviour(world, _description(world, self.name, gpus))
        self._node_id: NodeId | None = None
        self._journal: dict[AttemptId, HeldLease] = {}
        self._life: asyncio.Task[None] | None = None
        self._slowness = world.chance.one_of([0.3, 1.0, 1.0, 4.0])

    @property
    def is_up(self) -> bool:
        return self._life is not None

    def start(self) -> None:
        """Ends the attempts that ran when it was killed; the others are reported as they ended."""
        for held in self._journal.values():
            if not held.is_over:
                self._end(held, EndReason.NODE_RESTARTED)
        self._life = asyncio.get_running_loop().create_task(self._live())
        self.world.watch(self._life)

    async def kill(self, *, forgets: bool = False) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
        if forgets:
            self._journal.clear()

    async def leave(self) -> None:
        """The owner removes the node; the server may never learn of it."""
        node_id = self._node_id
        await self.kill(forgets=True)
        if node_id is not None:
            with suppress(Unavailable, NotFound):
                await self.link.call(lambda services: lease.leave(services, self._owner, node_id))

    def give_back(self) -> None:
        uuid = self.owner.reclaim()
        self._end_all_on(uuid, EndReason.RECLAIMED)

    def lose_device(self) -> None:
        uuid = self.owner.fail_device()
        self._end_all_on(uuid, EndReason.DEVICE_LOST)

    def _end_all_on(self, uuid: str, reason: EndReason) -> None:
        for held in self._journal.values():
            if not held.is_over and any(each.uuid == uuid for each in held.grant.devices):
                self._end(held, reason)

    async def _live(self) -> None:
        await self._repeat_until(self._register)
        async with asyncio.TaskGroup() as duties:
            for duty in (self._fetch, self._beat, self._work):
                duties.create_task(self._repeat_until(duty))

    async def _repeat_until(self, duty: Callable[[], Awaitable[bool]]) -> None:
        """Repeats a duty until it returns true; the server may be unreachable meanwhile."""
        is_done = False
        while not is_done:
            try:
                is_done = await duty()
            except (Unavailable, NotFound):
                await asyncio.sleep(self.world.chance.seconds(0.05, 0.5))

    async def _register(self) -> bool:
        self.owner.is_news = False
        statuses = self.owner.statuses
        offer = RegisterNode(self.owner.description, self._node_id, statuses=statuses)
        said = await self.link.call(lambda services: lease.register(services, self._owner, offer))
        self._node_id = said.node_id
        self.world.trace(f"{self.name} is {said.node_id}")
        return True

    async def _fetch(self) -> bool:
        chance, node_id = self.world.chance, self._here
        wait_seconds = 2.0 if self.world.is_repaired else chance.one_of([0.0, 1.0, 2.0])
        asked = AcquireLeases(self._leases(), wait_seconds=wait_seconds)
        answer = await self.link.call(
            lambda services: lease.acquire(services, self._owner, node_id, asked)
        )
        self._drop(answer.stop)
        for grant in answer.grants:
            if grant.attempt_id not in self._journal:
                self.world.trace(f"{self.name} takes {grant.attempt_id} {grant.items}")
                items = [item for part in grant.items for item in range(part.start, part.end)]
                held = self._journal[grant.attempt_id] = HeldLease(grant, self.world.now, items)
                is_own = grant.account_id == self._owner.account_id
                if not is_own and self.owner.declines(grant):
                    self._end(held, EndReason.DECLINED)
        await asyncio.sleep(chance.seconds(0.0, 0.3))
        return False

    async def _beat(self) -> bool:
        if self.owner.is_news:
            await self._register()
        node_id, beat = self._here, Heartbeat(self._leases(), devices=self.owner.statuses)
        answer = await self.link.call(
            lambda services: lease.heartbeat(services, self._owner, node_id, beat)
        )
        self._drop(answer.stop)
        await asyncio.sleep(self.world.chance.seconds(0.8, 1.2))
        return False

    async def _work(self) -> bool:
        for held in self._journal.values():
            if held.ready_at <= self.world.now and not held.is_over:
                self._go_on(held)
        said = [(held, each) for held in self._journal.values() for each in held.unsaid]
        if said:
            await self._report(said[: self.world.chance.number(1, 20)])
        await asyncio.sleep(self.world.chance.seconds(0.02, 0.3))
        return False

    def _go_on(self, held: HeldLease) -> None:
        """Takes the next step: starts, ends an item, or ends the attempt."""
        chance = self.world.chance
        if not held.is_begun:
            held.is_begun = True
            if chance.happens(0.3):
                held.unsaid.append(Preparing(held.lease))
            held.unsaid.append(Started(held.lease))
        elif held.items:
            self._run_items(held)
        else:
            self._end(
                held, EndReason.COMPLETED if chance.happens(0.85) else chance.one_of(_FAILURES)
            )
        slowness = self.world.slowness or self._slowness
        held.ready_at = self.world.now + chance.seconds(0.1, 2.0) * slowness

    def _run_items(self, held: HeldLease) -> None:
        chance = self.world.chance
        most = len(held.items) if self.world.is_repaired else chance.number(1, 4)
        done, held.items = held.items[:most], held.items[most:]
        outcomes = tuple(_outcome(item, chance.happens(0.9)) for item in done)
        held.unsaid.append(ItemsDone(held.lease, outcomes))
        if not held.items:
            self._end(held, EndReason.COMPLETED)

    def _end(self, held: HeldLease, reason: EndReason) -> None:
        held.is_over = True
        code = {EndReason.COMPLETED: 0, EndReason.EXIT_STATUS: 1}.get(reason)
        usage = Usage(run_seconds=self.world.chance.seconds(0.0, 5.0))
        held.unsaid.append(Finished(held.lease, reason, code, usage=usage))

    async def _report(self, said: Sequence[tuple[HeldLease, Report]]) -> None:
        node_id, reports = self._here, Reports(tuple(each for _, each in said))
        answers = await self.link.call(
            lambda services: report.report(services, self._owner, node_id, reports)
        )
        for (held, each), answer in zip(said, answers.answers, strict=True):
            if answer.accepted or answer.code == "stale_lease":
                self._acknowledge(held, each, is_stale=not answer.accepted)
            elif held.grant.attempt_id in self._journal:  # else it was stale a moment ago
                self.world.fail([f"{self.name} was told {answer.code} about {each}"])

    def _acknowledge(self, held: HeldLease, each: Report, *, is_stale: bool) -> None:
        if each in held.unsaid:
            held.unsaid.remove(each)
        if is_stale or isinstance(each, Finished):
            self._journal.pop(held.grant.attempt_id, None)

    def _drop(self, stopped: Sequence[AttemptId]) -> None:
        for attempt_id in stopped:
            self._journal.pop(attempt_id, None)

    @property
    def _here(self) -> NodeId:
        assert self._node_id is not None, "it has registered"
        return self._node_id

    def _leases(self) -> tuple[Lease, ...]:
        return tuple(held.lease for held in self._journal.values())


def _outcome(item: int, is_good: bool) -> ItemOutcome:
    reason = EndReason.COMPLETED if is_good else EndReason.EXIT_STATUS
    return ItemOutcome(item, reason, 0.1, 0 if is_good else 1)


def _description(world: World, name: str, gpus: int) -> NodeDescription:
    chance = world.chance
    price = chance.one_of([0, 0, 3_600_000])
    cpus = [DeviceKind.CPU] if world.has_large_tasks else []
    return NodeDescription(
        name=name,
        platform="linux",
        python_version="3.11",
        potluck_version="0.1.0",
        cores=CORES if gpus == world.most_devices else CORES // 2,
        memory_bytes=64 * GIB,
        disk_bytes=64 * GIB,
        sandbox=SandboxReport("bwrap", "watchdog", "watchdog"),
        devices=tuple(
            _device(kind, f"{name}-{place}", _terms(world, price))
            for place, kind in enumerate([DeviceKind.GPU] * gpus + cpus)
        ),
    )


def _terms(world: World, price: int) -> DeviceTerms:
    return DeviceTerms(
        price_micro_per_hour=price,
        shares_accounts=world.chance.happens(0.5),
        is_reclaimable=world.chance.happens(0.5),
    )


def _device(kind: DeviceKind, uuid: str, terms: DeviceTerms) -> DeviceDescription:
    return DeviceDescription(
        kind=kind, uuid=uuid, vendor="NVIDIA", model="RTX 4090", memory_bytes=24 * GIB, terms=terms
    )
