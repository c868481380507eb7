"""A provider's answers as it would give them, over its real control socket."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from potluck.model.device import Availability, DeviceDescription, DeviceKind, Health, Standing
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.node import SandboxReport
from potluck.model.terms import DeviceTerms
from potluck.provider.control.listener import listening
from potluck.provider.control.message import (
    Answer,
    AttemptNow,
    DeviceNow,
    InEffect,
    ProviderStatus,
    Request,
    ShowStatus,
)
from potluck.wire.device_status import DeviceStatus

GIB = 2**30
BIG, SMALL = "GPU-4f1c6f7e-1111-4222-8333-944455566677", "GPU-4f2d0000-1111-4222-8333-944455566677"
NODE = NodeId("node_01m7gm2q85jfaf9jspxrgzrx1c")
TASK = TaskId("task_01m7gm2ab2egsw01knwzd6emam")


def a_device(uuid: str, model: str, **changes: Any) -> DeviceNow:
    device_description = DeviceDescription(
        kind=DeviceKind.GPU,
        uuid=uuid,
        vendor="NVIDIA",
        model=model,
        memory_bytes=24 * GIB,
        interface="cuda",
        terms=DeviceTerms(price_micro_per_hour=250_000),
    )
    status = DeviceStatus(
        uuid,
        utilisation_percent=97.4,
        temperature_celsius=71.0,
        memory_used_bytes=12 * GIB,
        power_watts=310.2,
    )
    return DeviceNow(device_description, replace(status, **changes), Standing.BOUND)


def a_status(**changes: Any) -> ProviderStatus:
    """Two cards, one of them paused, and a task on the other."""
    paused = {"availability": Availability.PAUSED, "why": "Its owner has paused it."}
    provider_status = ProviderStatus(
        node_id=NODE,
        name="attic",
        url="https://pool.example:8470",
        pid=4242,
        version="0.1.0",
        server_version="0.1.0",
        up_seconds=11_000.0,
        silent_seconds=2.0,
        problem="",
        is_draining=False,
        terms_file="/srv/potluck/provider/provider.toml",
        sandbox=SandboxReport("bwrap", "watchdog", "watchdog"),
        devices=(
            a_device(BIG, "NVIDIA GeForce RTX 4090"),
            a_device(SMALL, "NVIDIA GeForce GTX 1060", health=Health.THROTTLED, **paused),
        ),
        attempts=(AttemptNow(AttemptId("attempt_1"), TASK, "running", (BIG,), 184.0),),
    )
    return replace(provider_status, **changes)


class FakeProvider:
    """Keeps what it was asked, and answers from a script; the status, if it has none."""

    def __init__(self, status: ProviderStatus):
        self.status = status
        self.asked: list[Request] = []
        self.answers: tuple[Answer, ...] = (InEffect(),)

    async def handle(self, request: Request) -> AsyncGenerator[Answer]:
        self.asked.append(request)
        for reply in (self.status,) if isinstance(request, ShowStatus) else self.answers:
            yield reply

    @contextmanager
    def running(self, directory: Path) -> Iterator["FakeProvider"]:
        directory.mkdir(parents=True, exist_ok=True)
        loop = asyncio.new_event_loop()
        ready, finished = threading.Event(), asyncio.Event()

        async def serve() -> None:
            async with listening(directory, self.handle):
                ready.set()
                await finished.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            assert ready.wait(10)
            yield self
        finally:
            loop.call_soon_threadsafe(finished.set)
            thread.join()
            loop.close()
