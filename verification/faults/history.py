"""Runs the history of one seed."""

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog
from msgspec import Struct

from potluck.decide.charges import grant_entries
from potluck.model.account import Role
from potluck.model.ids import AccountId
from potluck.store.identity import accounts
from potluck.store.ledger import ledger
from potluck.store.new_ids import use_id_source
from potluck.store.nodes.nodes import Owner
from verification.faults.cluster import BEGINNING
from verification.faults.consumer import SimulatedConsumer
from verification.faults.fault_injector import FaultInjector
from verification.faults.history_database import HistoryDatabase, Schedule
from verification.faults.history_plan import HistoryPlan
from verification.faults.invariant_check import find_all_violations
from verification.faults.network import Network, NetworkLink
from verification.faults.provider import SimulatedProvider
from verification.faults.sessions import Sessions
from verification.faults.starvation_check import StarvationCheck
from verification.faults.virtual_loop import VirtualLoop
from verification.faults.world import World

# Every task must have ended this long after the repair.
PATIENCE_SECONDS = 200.0
_CREDIT_MICRO = 50_000
_UNFINISHED = "SELECT id, state FROM tasks WHERE finished_at IS NULL ORDER BY id"
_PLENTY_MICRO = 10_000_000_000


class HistoryOutcome(Struct, frozen=True):
    seed: int
    steps: int
    violations: list[str]
    faults: dict[str, int]
    tasks: int
    virtual_seconds: float


def run_seed(
    sessions: Sessions, seed: int, plan: HistoryPlan, trace: Callable[[str], None] | None = None
) -> HistoryOutcome:
    """The same seed and plan give the same history, step by step."""
    random.seed(seed)  # the flow draws its jitter there
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        with _quietly() as logged:
            return loop.run_until_complete(_run(sessions, seed, plan, trace, logged))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _run(
    sessions: Sessions,
    seed: int,
    plan: HistoryPlan,
    trace: Callable[[str], None] | None,
    logged: list[str],
) -> HistoryOutcome:
    world = World(sessions, seed, plan, trace)
    with use_id_source(lambda: (_milliseconds(world), world.chance.bytes(10))):
        pool = await _Pool.make(world)
        await pool.live()
    world.fail(logged)
    return HistoryOutcome(
        seed,
        world.steps,
        world.broken,
        dict(sorted(world.chance.happened.items())),
        len(sessions.fetch("SELECT id FROM tasks")),
        round(world.now, 3),
    )


def _milliseconds(world: World) -> int:
    return int(BEGINNING.timestamp() * 1000 + world.now * 1000)


class _Pool:
    """All providers and consumers, the network and the fault injector."""

    def __init__(self, world: World, people: list[AccountId]) -> None:
        self._world = world
        self._network = Network(world, [])
        self._people = people
        owner = Owner(people[0])
        links = [NetworkLink(self._network) for _ in range(world.plan.nodes)]
        machines = [(f"node-{place}", _gpus(world, place)) for place in range(len(links))]
        world.most_devices = max(gpus for _, gpus in machines)
        providers = [
            SimulatedProvider(world, link, owner, machine)
            for link, machine in zip(links, machines, strict=True)
        ]
        self._faults = FaultInjector(world, self._network, providers, links)
        self._consumers = [
            SimulatedConsumer(world, NetworkLink(self._network), each) for each in people[1:]
        ]

    @classmethod
    async def make(cls, world: World) -> "_Pool":
        people = []
        async with _quiet_database(world).transaction() as connection:
            for number in range(world.plan.accounts + 1):
                role = {Role.CONSUMER if number else Role.PROVIDER}
                world.addresses.append(f"0x{number:040x}")
                account = await accounts.add(connection, world.addresses[-1], role)
                assert account is not None, "no account was there before"
                people.append(account.id)
        pool = cls(world, people)
        await pool._give(_CREDIT_MICRO)
        return pool

    async def live(self) -> None:
        world = self._world
        self._faults.begin()
        lives = [consumer.run() for consumer in self._consumers]
        with self._running([*lives, self._faults.run(), self._faults.change_owners()]):
            await world.over.wait()
        if world.plan.is_repaired and not world.broken:
            world.trace("everything is repaired")
            world.is_repaired = True
            await self._faults.repair_all()
            await self._give(_PLENTY_MICRO)
            if world.has_large_tasks:
                await StarvationCheck(world, NetworkLink(self._network), self._people[1:]).run()
            world.slowness = 0.1
            await self._await_ends()
        await self._faults.end()
        world.fail(find_all_violations(world.sessions))

    async def _give(self, amount_micro: int) -> None:
        async with _quiet_database(self._world).transaction() as connection:
            for account_id in self._people[1:]:
                await ledger.append(connection, grant_entries(account_id, amount_micro))

    async def _await_ends(self) -> None:
        """Every task ends once there are no more faults."""
        world = self._world
        until = world.now + PATIENCE_SECONDS
        while world.now < until and not world.broken:
            if not world.sessions.fetch(_UNFINISHED):
                return
            await asyncio.sleep(0.5)
        if world.broken:
            return
        stuck = world.sessions.fetch(_UNFINISHED)
        world.fail([f"{task['id']} is {task['state']} forever" for task in stuck])

    @contextmanager
    def _running(self, works: list[Coroutine[Any, Any, None]]) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work) for work in works]
        for task in tasks:
            self._world.watch(task)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def _quiet_database(world: World) -> HistoryDatabase:
    """Without faults, and without a step."""

    async def wait(*_: object) -> None:
        """Nothing happens before it."""

    schedule = Schedule(
        lambda: world.database_time, lambda: world.steps, wait, wait, lambda _: None
    )
    return HistoryDatabase(world.sessions, schedule, connections=1)


def _gpus(world: World, place: int) -> int:
    """With large tasks two nodes are large, so that a task that failed on one has another."""
    if not world.has_large_tasks:
        return world.chance.number(1, 4)
    return 4 if place < 2 else world.chance.number(1, 2)


@contextmanager
def _quietly() -> Iterator[list[str]]:
    """Suppresses logs; errors that would be logged are failures of the history."""
    errors: list[str] = []

    def collect(_: Any, level: str, event: MutableMapping[str, Any]) -> Any:
        if level in ("error", "exception", "critical"):
            raised = traceback.format_exc(limit=-1) if event.pop("exc_info", None) else ""
            errors.append(f"logged as an error: {event} {raised}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[collect], cache_logger_on_first_use=False)
    try:
        yield errors
    finally:
        structlog.configure(**before)
