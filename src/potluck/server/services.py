"""What every stage is given: the settings and the concrete parts, behind their interfaces."""

import asyncio

from msgspec import Struct, field

from potluck.blobs.interface import Blobs
from potluck.live.interface import Live
from potluck.server.contract_wallet import ContractWallets
from potluck.server.derived_keys import Keys
from potluck.server.egress.types import EgressSender
from potluck.server.package_wheel import OwnWheel
from potluck.server.rate_limiter import Limiter
from potluck.server.recently_seen import RecentlySeen
from potluck.server.settings import ServerSettings
from potluck.server.upload_assembly import Assemblies
from potluck.store.database import Database
from potluck.store.sealing.vault import Vault


class Services(Struct, frozen=True):
    settings: ServerSettings
    database: Database
    live: Live
    blobs: Blobs
    keys: Keys  # for one purpose each; the same for all instances
    vault: Vault  # seals what is sensitive
    origins: tuple[str, ...]  # what this server is called; the first is its own name for itself
    limiter: Limiter
    contract_wallets: ContractWallets
    authority_pem: bytes | None  # the private authority that clients pin, if there is one
    instance: str  # tells this instance from the others
    outward: EgressSender  # the one way to an address that a stranger has named
    stopping: asyncio.Event  # set when this instance stops: long polls and streams end
    assemblies: Assemblies = field(default_factory=Assemblies)  # uploads that are put together
    recently_seen: RecentlySeen = field(default_factory=RecentlySeen)
    wheel: OwnWheel | None = None  # of the code that runs here, for others to install
