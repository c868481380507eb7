"""Claims that the server sends for a wallet, while the RPC does not answer."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from potluck.chain.transaction import ContractCall
from potluck.model.error import Unavailable
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.flow.payout import send_claim
from potluck.server.services import Services

WALLET = "0x" + "11" * 20


class SilentGateway(ChainGateway):
    """Waits for an RPC until it is told that it answers."""

    def __init__(self) -> None:
        self.requests = asyncio.Semaphore(2)
        self.waiting = 0
        self.answers = asyncio.Event()

    async def prepare(self, call: ContractCall, sender: str) -> Any:
        self.waiting += 1
        await self.answers.wait()
        return SimpleNamespace(nonce=1, gas=2, max_fee=3, max_tip=4)


async def test_requests_beyond_two_are_refused_while_the_chain_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = SilentGateway()
    services = cast(Services, SimpleNamespace(chain=gateway))

    async def claim(services: Services, address: str) -> tuple[ChainGateway, ContractCall]:
        return gateway, ContractCall(WALLET, b"")

    monkeypatch.setattr(send_claim, "_claim", claim)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(send_claim.prepare_claim(services, WALLET)) for _ in range(2)]
        while gateway.waiting < 2:
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="busy"):
            await send_claim.prepare_claim(services, WALLET)
        gateway.answers.set()
    assert [task.result().nonce for task in waiting] == [1, 1]
    assert (await send_claim.prepare_claim(services, WALLET)).gas == 2
