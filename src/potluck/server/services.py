"""The settings and concrete services, behind their interfaces, that every stage receives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, field

from potluck.blobs.interface import Blobs
from potluck.live.interface import Live
from potluck.server.alerts.destinations import AlertDestinations
from potluck.server.caches import Caches
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.dashboard import Dashboard
from potluck.server.database_clock import DatabaseClock
from potluck.server.derived_keys import Keys
from potluck.server.egress.types import EgressSender
from potluck.server.health import HealthRecord
from potluck.server.metrics.metrics import ServerMetrics
from potluck.server.package_wheel import OfferedWheels, OwnWheel
from potluck.server.rate_limiter import Limiter
from potluck.server.recently_seen import RecentlySeen
from potluck.server.request_tally import RequestTally
from potluck.server.settings import ServerSettings
from potluck.server.stream_attempts import StreamAttempts
from potluck.server.upload_assembly import Assemblies
from potluck.server.waiting_polls import IdleCalls, WaitingPolls
from potluck.store.database import Connection, Database
from potluck.store.sealing.vault import Vault
from potluck.store.shared_commits import SharedCommits
from potluck.store.tasks.tasks import NewTask, TaskRecord


class Services(Struct, frozen=True):
    settings: ServerSettings
    database: Database
    live: Live
    blobs: Blobs
    keys: Keys  # one per purpose; the same on all instances
    vault: Vault  # encrypts sensitive values
    origins: tuple[str, ...]  # the server's names; the first is its own
    limiter: Limiter
    contract_wallets: ContractWallets
    authority_pem: bytes | None  # the private certificate authority that clients pin, if any
    instance: str  # identifies this instance
    outward: EgressSender  # the only way to send to an address that a user supplied
    stopping: asyncio.Event  # set when this instance stops; ends long polls and streams
    clock: DatabaseClock = field(default_factory=DatabaseClock)  # the time of all instances
    health: HealthRecord = field(default_factory=HealthRecord)  # as the last check found it
    assemblies: Assemblies = field(default_factory=Assemblies)  # uploads being assembled
    stream_attempts: StreamAttempts = field(default_factory=StreamAttempts)
    # Held while the manifest of a volume is read: a large one takes much memory.
    manifest_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    recently_seen: RecentlySeen = field(default_factory=RecentlySeen)
    waiting_polls: WaitingPolls = field(default_factory=WaitingPolls)
    idle_calls: IdleCalls = field(default_factory=IdleCalls)
    submissions: SharedCommits[NewTask, TaskRecord] = field(default_factory=SharedCommits)
    # By account and stream.
    stream_writes: SharedCommits[Callable[[Connection], Awaitable[Any]], Any] = field(
        default_factory=SharedCommits
    )
    requests: RequestTally = field(default_factory=RequestTally)  # of the last minutes
    alert_destinations: AlertDestinations = field(default_factory=AlertDestinations)
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    caches: Caches = field(default_factory=Caches)  # keep nothing unless they are opened
    chain: ChainGateway | None = None  # the rewards contract, if one is configured
    dashboard: Dashboard = field(default_factory=Dashboard)  # what `/` shows
    wheels: OfferedWheels = field(default_factory=OfferedWheels)  # of the running code

    @property
    def wheel(self) -> OwnWheel | None:
        """The package for clients to install, if this code was installed."""
        return self.wheels.current
