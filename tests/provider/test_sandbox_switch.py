"""When a provider changes its sandbox, and what it takes meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from potluck.provider.sandbox.sandbox_switch import SandboxSwitch, switch_sandboxes

SOON = 0.005


class Node:
    """One that runs something, and whose owner names sandboxes."""

    def __init__(self) -> None:
        self.wanted = self.current = "none"
        self.is_busy = False
        self.works = True
        self.tried: list[str] = []
        self.said: list[str] = [""]  # what it takes nothing for, whenever that changes

    def close(self, reason: str) -> None:
        if reason != self.said[-1]:
            self.said.append(reason)

    async def change(self, name: str) -> bool:
        self.tried.append(name)
        if self.works:
            self.current = name
        return self.works

    async def until(self, drivers: list[str], is_open: bool) -> None:
        """And then for some looks more."""
        async with asyncio.timeout(5):
            while (self.tried, self.said[-1] == "") != (drivers, is_open):
                await asyncio.sleep(SOON)
        await asyncio.sleep(5 * SOON)
        assert (self.tried, self.said[-1] == "") == (drivers, is_open)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    refit = SandboxSwitch(
        lambda: node.wanted, lambda: node.current, lambda: node.is_busy, node.close, node.change
    )
    suiting = asyncio.create_task(switch_sandboxes(refit, SOON))
    yield node
    suiting.cancel()


async def test_the_sandbox_is_changed_when_nothing_runs(node: Node) -> None:
    node.is_busy, node.wanted = True, "bwrap"
    await node.until([], is_open=False)
    node.is_busy = False
    await node.until(["bwrap"], is_open=True)


async def test_a_withdrawn_change_is_not_made(node: Node) -> None:
    node.is_busy, node.wanted = True, "bwrap"
    await node.until([], is_open=False)
    node.wanted = "none"
    await node.until([], is_open=True)
    node.is_busy = False
    await node.until([], is_open=True)


async def test_without_the_requested_sandbox_no_task_is_accepted(node: Node) -> None:
    node.works, node.wanted = False, "bwrap"
    await node.until(["bwrap"], is_open=False)
    assert "does not work" in node.said[-1]
    node.wanted = "none"
    await node.until(["bwrap"], is_open=True)
