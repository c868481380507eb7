"""Checks invariants periodically, on a few nodes and accounts at a time, in rotation.

A violation is a bug in this program: it is counted and logged as an error.
"""

import asyncio

import structlog

from potluck.decide.invariants import check_invariants
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.scheduler import invariant_snapshot, node_feed, scheduler_feed
from potluck.store.scheduler.invariant_snapshot import SnapshotScope

log = structlog.get_logger()

# Keeps a check short: a node includes its devices, attempts and their accounts.
_NODES = 20
_ACCOUNTS = 5
_ATTEMPTS = 200


class InvariantCheckLoop:
    def __init__(self, services: Services, memory: LeaderMemory) -> None:
        self._services = services
        self._nodes = memory.nodes
        self._behind_node = ""
        self._behind_account = ""
        self.violations = 0

    async def run_once(self) -> None:
        await self.check()
        await asyncio.sleep(self._services.settings.watch_seconds)

    async def check(self) -> None:
        scope = await self._next_scope()
        async with self._services.database.transaction() as connection:
            sentences = check_invariants(await invariant_snapshot.sample(connection, scope))
        for sentence in sentences:
            log.error("invariant violated", sentence=sentence)
        self.violations += len(sentences)

    async def _next_scope(self) -> SnapshotScope:
        async with self._services.database.transaction() as connection:
            node_ids = await node_feed.online_nodes(connection, self._behind_node, _NODES)
            account_ids = await scheduler_feed.all_accounts(
                connection, self._behind_account, _ACCOUNTS
            )
            nodes = await self._nodes.of_ids(connection, node_ids)
        self._behind_node = node_ids[-1] if len(node_ids) == _NODES else ""
        self._behind_account = account_ids[-1] if len(account_ids) == _ACCOUNTS else ""
        attempts = [attempt for node in nodes for attempt in node.attempts][:_ATTEMPTS]
        return SnapshotScope(
            task_ids=sorted({attempt.task_id for attempt in attempts}),
            attempt_ids=[attempt.id for attempt in attempts],
            node_ids=node_ids,
            account_ids=account_ids,
        )
