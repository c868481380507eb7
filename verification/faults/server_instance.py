"""One instance of the server: its services and its leader loop, which can be killed and paused."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

from potluck.blobs.interface import Blobs
from potluck.decide.reservations.reserve import ReserveSettings
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.derived_keys import derive_keys
from potluck.server.egress.types import EgressSender
from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.expire import ExpireLoop
from potluck.server.loops.leadership import LeadershipLoop, Loop
from potluck.server.loops.outbox import OutboxLoop
from potluck.server.loops.schedule import ScheduleLoop
from potluck.server.rate_limiter import Limiter
from potluck.server.services import Services
from potluck.server.settings import ServerSettings
from potluck.store.database import unavailable
from potluck.store.scheduler.leader import Leadership
from verification.faults.history_database import HistoryDatabase, Schedule
from verification.faults.open_vault import OpenVault
from verification.faults.world import World

T = TypeVar("T")

SETTINGS = ServerSettings(
    data_directory=Path("simulated"),
    lease_seconds=4.0,
    heartbeat_seconds=1.0,
    poll_seconds=2.0,
    lease_poll_seconds=1.0,
    overrun_seconds=6.0,
    fetch_seconds=2.0,
    silent_after_seconds=3.0,
    leader_seconds=2.0,
    leader_renew_seconds=0.5,
    schedule_poll_seconds=1.0,
    sweep_seconds=10.0,
    expire_poll_seconds=1.0,
    notify_poll_seconds=2.0,
    back_off_first_seconds=0.1,
    back_off_longest_seconds=1.0,
)

# As the product's idle_in_transaction_session_timeout.
IDLE_SECONDS = 3.0

# Reservations come early in histories with large tasks.
SOON = ReserveSettings(
    after_seconds=1.0,
    every_seconds=0.1,
    most_without_promise=4,
    most_of_account=2,
    extension_seconds=0.1,
)


class ServerInstance:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self._is_alive = True
        self._awake = asyncio.Event()
        self._awake.set()
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order, unlike a set
        schedule = Schedule(
            now=lambda: world.database_time,
            step=lambda: world.steps,
            before_transaction=self._turn,
            before_statement=self._before_statement,
            after_transaction=world.done,
        )
        connections = SETTINGS.database_connections
        database = HistoryDatabase(world.sessions, schedule, connections)
        self.services = _services(world, name, database)
        self.spawn(_Lead(self.services, SOON if world.has_large_tasks else None).run())

    @property
    def answers(self) -> bool:
        return self._is_alive and self._awake.is_set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs work that ends with this instance."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        self.world.watch(task)
        return task

    async def kill(self) -> None:
        """Like kill -9: it writes nothing more to the database."""
        self._is_alive = False
        await self._end()

    async def stop(self) -> None:
        """Shuts down: a leader resigns."""
        await self._end()
        self._is_alive = False

    def pause(self) -> None:
        """Like SIGSTOP: it later continues where it was."""
        self._awake.clear()

    def resume(self) -> None:
        self._awake.set()

    async def _turn(self) -> None:
        if not self._is_alive:
            raise unavailable()
        await self.world.turn()
        await self._awake.wait()
        if not self._is_alive:
            raise unavailable()

    async def _before_statement(self, lose: Callable[[], None]) -> None:
        """Ends the transaction if the instance is paused for longer than PostgreSQL waits."""
        chance = self.world.chance
        if chance.strikes("interleaved"):
            await asyncio.sleep(chance.seconds(0.0, 0.05))
        if not self._awake.is_set():
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._awake.wait()
            except TimeoutError:
                chance.note("transaction_ended_idle")
                lose()
                await self._awake.wait()
        if not self._is_alive:
            raise unavailable()

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        self._awake.set()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Lead(LeadershipLoop):
    """The leader's loop, with only the duties that tasks depend on."""

    def __init__(self, services: Services, reserve: ReserveSettings | None) -> None:
        super().__init__(services)
        self._reserve = reserve

    def _loops(self, leadership: Leadership) -> tuple[Loop, ...]:
        return (
            ScheduleLoop(self._services, leadership, LeaderMemory(self._services, self._reserve)),
            ExpireLoop(self._services, leadership),
            OutboxLoop(self._services),
        )


def _services(world: World, name: str, database: HistoryDatabase) -> Services:
    return Services(
        SETTINGS,
        database,
        world.live,
        cast(Blobs, None),  # no log is written
        keys=derive_keys(b"simulated" * 4),
        vault=OpenVault(),
        origins=("http://127.0.0.1",),
        limiter=Limiter(world.live, SETTINGS),
        contract_wallets=ContractWallets({}),
        authority_pem=None,
        outward=cast(EgressSender, None),  # no account has a webhook
        instance=name,
        stopping=asyncio.Event(),
    )
