"""Many nodes in one process, for `bench.nodes`: real sign-ins, registrations, polls and heartbeats.

    POTLUCK_WALLET_KEY=… python -m bench.node_crowd URL --nodes 1000 --first-address 2

Each node has a key of its own, which the wallet authorises, an HTTP session of its own, and the
duties of a provider that talk to the server. Its devices and its runs are made up: an attempt ends
as soon as it is granted. Source addresses are of 127.0.0.0/8, so many nodes for each that a server
with its usual limits takes their connections.

Prints a line of JSON when all nodes are registered, and then one for every two seconds, until its
standard input is closed.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import uvloop
from msgspec import Struct

import potluck
from potluck.consumer import Potluck
from potluck.consumer.http.connect import connect_anonymously
from potluck.consumer.identity.delegate import authorise, become_provider
from potluck.consumer.identity.sign_in import sign_in
from potluck.consumer.identity.wallet import Wallet
from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.lease import Lease
from potluck.model.node import NodeDescription, SandboxReport
from potluck.model.task import EndReason
from potluck.model.task_spec import ScriptSpec
from potluck.provider.announcement import Announcement, ServerSilent
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.event import Event, Granted
from potluck.provider.server.heartbeat import HeartbeatContent, Pulse, beat_forever
from potluck.provider.server.lease_poll import Rhythm, acquire_forever
from potluck.provider.server.node_key import NodeKey
from potluck.provider.server.server_client import ListStreams, NodeServerClient
from potluck.provider.settings import ProviderSettings
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import (
    Finished,
    Grant,
    Heartbeat,
    HeartbeatAnswer,
    LeasesGranted,
    RegisterNode,
    Reports,
    Started,
)

# Two connections each, and a server takes a thousand from one address.
_NODES_PER_ADDRESS = 400
_REGISTERED_AT_ONCE = 16
_TELL_SECONDS = 2.0
_GIB = 2**30
KEPT = "keep.py"  # the name of a task that does not end


class Counts:
    """What has happened since the last line."""

    def __init__(self) -> None:
        self.beats_ms: list[float] = []
        self.polls = self.grants = self.errors = 0

    def take(self) -> dict[str, object]:
        taken = {
            "at": time.time(),
            "beats_ms": [round(beat, 2) for beat in self.beats_ms],
            "polls": self.polls,
            "grants": self.grants,
            "errors": self.errors,
        }
        self.__init__()  # type: ignore[misc]
        return taken


class TimedClient(NodeServerClient):
    """Times heartbeats from the moment at which they are sent, and counts polls."""

    counts: Counts
    is_separate: bool  # heartbeats are requests of their own, also while nothing runs

    async def heartbeat(self, beat: Callable[[], Heartbeat]) -> HeartbeatAnswer:
        began = time.perf_counter()
        answer = await super().heartbeat(beat)
        self.counts.beats_ms.append((time.perf_counter() - began) * 1000)
        return answer

    async def acquire(
        self,
        held: Callable[[], tuple[Lease, ...]],
        wait_seconds: float,
        streams: ListStreams = lambda: (),
        beat: Callable[[], Heartbeat | None] = lambda: None,
    ) -> LeasesGranted:
        self.counts.polls += 1
        if self.is_separate:
            beat = _no_beat
        return await super().acquire(held, wait_seconds, streams, beat)


def _no_beat() -> None:
    """As nodes of earlier versions poll."""


class SimulatedNode:
    """The duties of one provider that talk to the server."""

    def __init__(
        self, options: "CrowdOptions", key: NodeKey, number: int, address: str, counts: Counts
    ) -> None:
        self._counts = counts
        self._uuid = f"cpu-{os.urandom(16).hex()}"
        settings = ProviderSettings(url=options.url, data_directory=Path(), name=f"node-{number}")
        # What it is offered is the same each time, but for the id, which the client knows.
        offer = RegisterNode(_describe(settings.name, self._uuid))
        connector = aiohttp.TCPConnector(limit=0, local_addr=(address, 0))
        self._session = aiohttp.ClientSession(connector=connector)
        self._client = TimedClient(
            self._session, settings, key, lambda: offer, self._announce, lambda _: None
        )
        self._client.counts, self._client.is_separate = counts, options.is_separate
        self._settings = settings
        self._news = ChangeCounter()
        self._answered = asyncio.Event()
        self._held: dict[str, Lease] = {}
        self._runs: set[asyncio.Task[None]] = set()

    async def register(self) -> None:
        self._registered = await self._client.renew()

    async def work(self) -> None:
        """The poll and the heartbeats of a provider, from a random moment of their intervals."""
        answer, settings = self._registered, self._settings
        poll_seconds = min(settings.poll_seconds, answer.poll_seconds)
        rhythm = Rhythm(poll_seconds, settings.poll_rest_seconds, self._answered.wait)
        content = HeartbeatContent(self._list_held, self._statuses, lambda: 0, self._news)
        beat_seconds, pulse = answer.heartbeat_seconds, Pulse()
        await asyncio.sleep(random.uniform(0, poll_seconds))
        async with asyncio.TaskGroup() as duties:
            duties.create_task(acquire_forever(self._client, content, self._take, pulse, rhythm))
            duties.create_task(
                beat_forever(self._client, content, self._take, lambda _: None, beat_seconds, pulse)
            )

    async def close(self) -> None:
        await self._session.close()

    def _announce(self, announcement: Announcement) -> None:
        if isinstance(announcement, ServerSilent):
            self._counts.errors += 1

    def _list_held(self) -> tuple[Lease, ...]:
        return tuple(self._held.values())

    def _statuses(self) -> tuple[DeviceStatus, ...]:
        celsius = round(random.uniform(40, 50), 1)
        return (DeviceStatus(self._uuid, utilisation_percent=0.0, temperature_celsius=celsius),)

    def _take(self, events: list[Event]) -> bool:
        grants = [event.grant for event in events if isinstance(event, Granted)]
        fresh = [grant for grant in grants if grant.attempt_id not in self._held]
        for grant in fresh:
            self._held[grant.attempt_id] = Lease(grant.attempt_id, grant.token)
            run = asyncio.create_task(self._run(grant))
            self._runs.add(run)
            run.add_done_callback(self._runs.discard)
        return bool(fresh)

    async def _run(self, grant: Grant) -> None:
        """A task named `keep.py` runs on: its node sends heartbeats for it."""
        lease = self._held[grant.attempt_id]
        await self._client.report(lambda: Reports((Started(lease),)))
        self._counts.grants += 1
        if isinstance(grant.spec, ScriptSpec) and grant.spec.filename == KEPT:
            return
        await self._client.report(lambda: Reports((Finished(lease, EndReason.COMPLETED, 0),)))
        self._held.pop(grant.attempt_id)
        self._answered.set()


class CrowdOptions(Struct, frozen=True):
    url: str
    nodes: int
    first_address: int
    is_separate: bool


async def run(options: CrowdOptions, wallet: Wallet) -> None:
    counts = Counts()
    keys = await asyncio.to_thread(_authorised_keys, options, wallet)
    nodes = [
        SimulatedNode(options, key, number, _address(options, number), counts)
        for number, key in enumerate(keys)
    ]
    gate = asyncio.Semaphore(_REGISTERED_AT_ONCE)

    async def enter(node: SimulatedNode) -> None:
        async with gate:
            await node.register()

    await asyncio.gather(*map(enter, nodes))
    duties = [asyncio.create_task(node.work()) for node in nodes]
    print(json.dumps({"nodes": len(nodes)}), flush=True)
    telling = asyncio.create_task(_tell_forever(counts))
    await asyncio.to_thread(sys.stdin.read)
    for duty in (*duties, telling):
        duty.cancel()
    await asyncio.gather(*duties, telling, return_exceptions=True)
    await asyncio.gather(*(node.close() for node in nodes))


async def _tell_forever(counts: Counts) -> None:
    while True:
        await asyncio.sleep(_TELL_SECONDS)
        print(json.dumps(counts.take()), flush=True)


def _authorised_keys(options: CrowdOptions, wallet: Wallet) -> list[NodeKey]:
    token = sign_in(connect_anonymously(options.url), wallet).access_token
    keys = [NodeKey(os.urandom(32)) for _ in range(options.nodes)]
    with Potluck(options.url, token) as client:
        become_provider(client)
        for number, key in enumerate(keys):
            authorise(client, wallet, key.address, f"node-{number}")
    return keys


def _address(options: CrowdOptions, number: int) -> str:
    return f"127.0.0.{options.first_address + number // _NODES_PER_ADDRESS}"


def addresses_for(nodes: int) -> int:
    """How many source addresses so many nodes use."""
    return -(-nodes // _NODES_PER_ADDRESS)


def _describe(name: str, uuid: str) -> NodeDescription:
    device = DeviceDescription(
        kind=DeviceKind.CPU,
        uuid=uuid,
        vendor="GenuineIntel",
        model="Simulated processor",
        memory_bytes=8 * _GIB,
        compute_units=8,
        driver="",
        interface="plain",
    )
    sandbox = SandboxReport(
        "bwrap", *("cgroup v2",) * 3, "tmpfs", "namespaces", "seccomp", "user namespace"
    )
    return NodeDescription(
        name=name,
        platform="Linux x86_64",
        python_version="3.11.2",
        potluck_version=potluck.__version__,
        cores=8,
        memory_bytes=8 * _GIB,
        disk_bytes=8 * _GIB,
        sandbox=sandbox,
        devices=(device,),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--first-address", type=int, default=2)
    parser.add_argument("--separate-beats", action="store_true")
    given = parser.parse_args()
    wallet = Wallet(bytes.fromhex(os.environ["POTLUCK_WALLET_KEY"]))
    options = CrowdOptions(given.url, given.nodes, given.first_address, given.separate_beats)
    uvloop.run(run(options, wallet))


if __name__ == "__main__":
    main()
