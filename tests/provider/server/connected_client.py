"""A provider's end of the line to a fake server, with everything that came of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.ids import NodeId
from potluck.model.node import NodeDescription, SandboxReport
from potluck.provider.announcement import Announcement
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.event import Event
from potluck.provider.server.heartbeat import HeartbeatContent
from potluck.provider.server.server_client import ListHeld, NodeServerClient, open_node_client
from potluck.wire.provider import HeartbeatAnswer, RegisterNode
from tests.provider.builders import KEY, settings_for
from tests.provider.fake_server import FakeServer

REGISTRATION = RegisterNode(
    NodeDescription(
        name="test-node",
        platform="Linux",
        python_version="3.11.2",
        potluck_version="0.1.0",
        cores=2,
        memory_bytes=2**30,
        disk_bytes=2**28,
        sandbox=SandboxReport("bwrap", "watchdog", "watchdog"),
        devices=(DeviceDescription(DeviceKind.CPU, "cpu-1", "vendor", "model", 2**30),),
    )
)


class Provider:
    """A link with everything that came of it."""

    def __init__(
        self, link: NodeServerClient, announcements: list[Announcement], ids: list[NodeId]
    ) -> None:
        self.link = link
        self.announced = announcements
        self.ids = ids
        self.events: list[Event] = []
        self.answers: list[HeartbeatAnswer] = []

    def tell(self, events: list[Event]) -> bool:
        self.events += events
        return bool(events)

    def hear(self, response: HeartbeatAnswer) -> None:
        self.answers.append(response)

    def heard(self, *events: Event) -> Callable[[], bool]:
        return lambda: all(event in self.events for event in events)


@asynccontextmanager
async def linked(
    server: FakeServer, registration: RegisterNode = REGISTRATION
) -> AsyncIterator[Provider]:
    announcements: list[Announcement] = []
    ids: list[NodeId] = []
    settings = settings_for(server.url, Path("/nonexistent"))
    async with open_node_client(
        settings, KEY, lambda: registration, announcements.append, ids.append
    ) as link:
        await link.register()
        yield Provider(link, announcements, ids)


@asynccontextmanager
async def during(duty: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(duty)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """For what shows on our side of the link, where nobody signals."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


def saying(list_held: ListHeld, news: ChangeCounter | None = None) -> HeartbeatContent:
    return HeartbeatContent(list_held, tuple, lambda: 0, news or ChangeCounter())
