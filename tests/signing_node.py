"""A node that signs receipts, without a process: its key, its file, and a server's flow."""

import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from potluck.model.ids import NodeId
from potluck.provider.attempt.receipt_book import ReceiptBook, ReceiptClaim
from potluck.provider.holding import work_facts
from potluck.provider.server.node_key import NodeKey
from potluck.server.flow.lease import lease
from potluck.store.identity import node_keys
from potluck.store.nodes.nodes import Owner
from potluck.wire.identity import Delegation
from potluck.wire.provider import Grant, Heartbeat
from potluck.wire.signing.receipt import NodeSignedReceipt, ReceiptsAnswer
from tests.server.flow.pool import Pool
from tests.wallets import Wallet


def claim(grant: Grant, **changes: Any) -> ReceiptClaim:
    facts = work_facts(grant)
    receipt_claim = ReceiptClaim(
        grant.attempt_id,
        facts.task_id,
        facts.account_id,
        facts.devices,
        is_last=True,
        started_at_ms=1_000,
        ended_at_ms=61_000,
        worked_ms=60_000,
        reason="completed",
        price_micro_per_hour=facts.price_micro_per_hour,
    )
    return replace(receipt_claim, **changes)


class SigningNode:
    """Bob's machine, with a node key."""

    def __init__(self, pool: Pool, directory: Path, key: NodeKey) -> None:
        self.pool = pool
        self.directory = directory
        self.key = key
        self.node_id = NodeId("")
        self.server = ""
        self.book = ReceiptBook(directory, key)

    @classmethod
    async def join(
        cls, pool: Pool, directory: Path, name: str = "node", **offer: Any
    ) -> "SigningNode":
        node = cls(pool, directory, NodeKey(Wallet(f"key of {name}").key))
        now = int(time.time())
        address = Wallet("bob").address
        delegation = Delegation(
            address, node.key.address, "http://x", ("node",), now, now + 3600, "12345678", "0x"
        )
        async with pool.services.database.transaction() as connection:
            added = await node_keys.add(connection, pool.bob, delegation, name)
        pool.bobs = Owner(pool.bob, added.id)
        offered = await pool.offer(**offer)
        node.node_id, node.server = offered.node_id, offered.signing_address
        node.book.bind(node.server, node.node_id)
        return node

    async def work(self, **changes: Any) -> Grant:
        """The next task, which is granted to this node."""
        await self.pool.submit(**changes)
        await self.pool.plan()
        (grant,) = await self.pool.fetch(self.node_id)
        return grant

    def sign(self, *claims: ReceiptClaim) -> None:
        self.book.sign(claims)
        self.book.flush()

    def reopen(self) -> None:
        """As a provider that was killed and started again."""
        self.book.close()
        self.book = ReceiptBook(self.directory, self.key)
        self.book.bind(self.server, self.node_id)

    async def send(self, *receipts: NodeSignedReceipt) -> ReceiptsAnswer:
        """The answer of the server, which the node does not get."""
        heartbeat = Heartbeat(receipts=receipts or self.book.unsent())
        services, owner = self.pool.services, self.pool.bobs
        return (await lease.heartbeat(services, owner, self.node_id, heartbeat)).receipts

    async def beat(self) -> ReceiptsAnswer:
        response = await self.send()
        self.book.take(response)
        self.book.flush()
        return response
