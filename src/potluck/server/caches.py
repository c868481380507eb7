"""What this instance has just read from the database and need not read again.

Operations that change rights never use it; see `Operation.is_privileged`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct, field

from potluck.live.interface import Live
from potluck.live.value_cache import ValueCache
from potluck.server import topics
from potluck.server.settings import ServerSettings
from potluck.store.identity.accounts import Account
from potluck.store.identity.api_keys import KeyCaller
from potluck.store.identity.node_keys import NodeCaller
from potluck.wire.consumer import PoolView
from potluck.wire.dashboard.market import MarketView

_MAX_NODE_KEYS = 20_000


class Caches(Struct, frozen=True):
    # Of sessions, by the claims of their tokens.
    accounts: ValueCache[Account | None] = field(default_factory=ValueCache)
    # Of node keys, by their ids; `loops/caller_renewal.py` keeps them true.
    node_callers: ValueCache[NodeCaller | None] = field(default_factory=ValueCache)
    api_keys: ValueCache[KeyCaller | None] = field(default_factory=ValueCache)  # by their hashes
    pool: ValueCache[PoolView] = field(default_factory=ValueCache)
    market: ValueCache[MarketView] = field(default_factory=ValueCache)


@asynccontextmanager
async def open_caches(live: Live, settings: ServerSettings) -> AsyncIterator[Caches]:
    """Each has a listener of its own: a wake-up is taken once."""
    callers = topics.CALLERS
    async with (
        live.listen(callers) as accounts,
        live.listen(callers) as node_callers,
        live.listen(callers) as api_keys,
        # Woken by everything that may let the leader place a task, or has happened to one.
        live.listen(topics.SCHEDULE, topics.OUTBOX) as changes,
        live.listen() as nothing,  # a look at the market may be some seconds old
    ):
        yield Caches(
            ValueCache(accounts, settings.caller_cache_seconds),
            ValueCache(node_callers, settings.caller_cache_seconds, _MAX_NODE_KEYS),
            ValueCache(api_keys, settings.caller_cache_seconds),
            ValueCache(changes, settings.pool_cache_seconds),
            ValueCache(nothing, settings.market_cache_seconds),
        )
