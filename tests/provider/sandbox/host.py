"""A process that owns a sandbox driver, as a provider does, and does what a test tells it.

Started as root or as an ordinary user. It reads one JSON request a line and answers with one line;
killing it is what happens to a provider that is killed.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from potluck.model.error import SandboxUnavailable
from potluck.model.network.patterns import RAW
from potluck.model.task import EndReason
from potluck.provider.egress.egress import Egress
from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver
from potluck.provider.sandbox.docker.docker import RUNSC, DockerDriver
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    Confinement,
    Driver,
    InputFailed,
    RunHooks,
    RunOutcome,
    StopRequest,
    WorkDirectory,
)
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from potluck.provider.server.throttle import Throttle
from tests.provider.egress.proxies import ScriptedNames

T = TypeVar("T", bound=Struct)

CUT = b"CUT"  # output with these bytes makes the host cancel the run, when asked to
SEEN = ".seen"  # in the work directory, once the errand has looked twice while the run lived


class Request(Struct, frozen=True):
    confinement: Confinement | None = None  # none: reap
    cancel: bool = False
    tell: bool = False  # answer as soon as CUT was written, and go on
    recalls: tuple[float, ...] = ()  # graces: call it back once CUT was written, so many times
    is_recalled_before: bool = False  # call it back before it begins
    brings: dict[str, bytes] | None = None  # names: an errand puts these, and takes what is left
    hosts: tuple[str, ...] = ()  # that it may reach, through a proxy unless they are RAW
    own_addresses: tuple[str, ...] = ()  # of the owner's line, as the server would see them
    network_bytes: int = 2**30
    names: dict[str, list[list[str]]] = {}  # of hosts, instead of the system's resolver
    hangs: bool = False  # the errand never ends with what it brings, and the run is called back


class Answer(Struct, frozen=True):
    ended: RunOutcome | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    potluck: bytes = b""
    started: int = 0
    largest_piece_bytes: int = 0
    cancelled: bool = False
    left: dict[str, bytes] = {}  # what the errand found in the end
    seen: int = 0  # how often it looked while the run lived
    network_bytes: int = 0  # that it moved
    refused: list[str] = []  # where it could not go


class Carrier:
    """An errand: puts files in place, looks while it runs, and takes what is there in the end."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.left: dict[str, bytes] = {}
        self.seen = 0

    async def before(self, work: WorkDirectory) -> None:
        for name, content in (self._request.brings or {}).items():
            if name == "refused":
                raise InputFailed(content.decode())
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            descriptor = os.open(name, flags, 0o600, dir_fd=work.descriptor)
            os.write(descriptor, content)
            if work.uid is not None:
                os.fchown(descriptor, work.uid, work.uid)
            os.close(descriptor)
        if self._request.hangs:
            await asyncio.sleep(1000)

    async def during(self, work: WorkDirectory) -> None:
        while True:
            self.seen += 1 if os.fstat(work.descriptor).st_nlink else 0
            if self.seen == 2:
                os.close(os.open(SEEN, os.O_CREAT, dir_fd=work.descriptor))
            await asyncio.sleep(0.01)

    async def after(self, work: WorkDirectory, _: EndReason) -> None:
        for name in os.listdir(work.descriptor):  # noqa: PTH208
            if not name.startswith("."):
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=work.descriptor)
                self.left[name] = os.read(descriptor, 1000)
                os.close(descriptor)


class Collector:
    """Takes what a run says."""

    def __init__(self) -> None:
        self.streams = {"stdout": bytearray(), "stderr": bytearray(), "potluck": bytearray()}
        self.started = 0
        self.largest_piece_bytes = 0
        self.saw_cut = asyncio.Event()

    async def output(self, stream: str, data: bytes) -> None:
        self.streams[stream].extend(data)
        self.largest_piece_bytes = max(self.largest_piece_bytes, len(data))
        if CUT in self.streams[stream][-100:]:
            self.saw_cut.set()

    async def on_started(self) -> None:
        self.started += 1

    def answer(self, outcome: RunOutcome | None, carrier: Carrier) -> Answer:
        return Answer(
            ended=outcome,
            left=carrier.left,
            seen=carrier.seen,
            started=self.started,
            largest_piece_bytes=self.largest_piece_bytes,
            cancelled=outcome is None,
            stdout=bytes(self.streams["stdout"]),
            stderr=bytes(self.streams["stderr"]),
            potluck=bytes(self.streams["potluck"]),
        )


async def serve(driver: Driver, directory: Path) -> None:
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        request = decode(line, Request)
        if request.confinement is None:
            await driver.reap()
            write(Answer())
        else:
            await handle_with_network(driver, request, request.confinement, directory)


async def handle_with_network(
    driver: Driver, request: Request, confinement: Confinement, directory: Path
) -> None:
    if not request.hosts:
        reply = await handle(driver, request, confinement, StopRequest())
        if not request.tell:
            write(reply)
        return
    names = ScriptedNames(request.names) if request.names else None
    egress = Egress(directory, Throttle(), names)
    for address in request.own_addresses:
        egress.own.see(address)
    recall = StopRequest()

    def stop() -> None:
        recall.ask(EndReason.NETWORK_LIMIT, 0.0)

    most_bytes = request.network_bytes
    serving = egress.serving_task(confinement.name, request.hosts, most_bytes, stop)
    async with serving as (way_out, path):
        sockets = {"raw_network" if request.hosts == (RAW,) else "proxy": path}
        reply = await handle(driver, request, replace(confinement, **sockets), recall)
    write(
        replace(
            reply,
            network_bytes=way_out.budget.spent_bytes,
            refused=[*way_out.refused, *way_out.not_public],
        )
    )


async def handle(
    driver: Driver, request: Request, confinement: Confinement, recall: StopRequest
) -> Answer:
    collector = Collector()
    carrier = Carrier(request)
    errand = NO_ERRAND if request.brings is None else carrier
    if request.is_recalled_before:
        recall.ask(EndReason.RECLAIMED, 0.0)
    run = asyncio.create_task(
        driver.run(
            confinement,
            collector.output,
            RunHooks(collector.on_started, recall=recall, errand=errand),
        )
    )
    if request.hangs:
        await asyncio.sleep(0.2)
        recall.ask(EndReason.RECLAIMED, 60.0)
    if request.cancel or request.tell or request.recalls:
        await collector.saw_cut.wait()
    for number, grace_seconds in enumerate(request.recalls):
        # Only the first reason counts.
        recall.ask(EndReason.DEVICE_LOST if number else EndReason.RECLAIMED, grace_seconds)
    if request.tell:
        write(collector.answer(None, carrier))
    if request.cancel:
        run.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await run
    return collector.answer(None if run.cancelled() else run.result(), carrier)


def write(answer: Answer) -> None:
    os.write(1, encode(answer) + b"\n")


def encode(value: Struct) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def decode(line: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(line, type=kind, dec_hook=lambda to, text: to(text))


async def main(kind: str, state_directory: Path, *prefix: str) -> None:
    driver = build(kind, state_directory, *prefix)
    try:
        report = await driver.probe()
    except SandboxUnavailable as unavailable:
        sys.exit(unavailable.detail)
    os.write(1, msgspec.json.encode(report) + b"\n")
    await serve(driver, state_directory)


def build(kind: str, state_directory: Path, *prefix: str) -> Driver:
    """`docker:SOCKET` and `runsc:SOCKET` name the engine too."""
    if kind == "none":
        return UnconfinedDriver(state_directory, "test")
    name, _, socket = kind.partition(":")
    if socket:
        runtime = RUNSC if name == RUNSC else None
        return DockerDriver(state_directory, "test", Path(socket), runtime)
    if prefix:
        return BubblewrapDriver(state_directory, "test", Path(prefix[0]))
    return BubblewrapDriver(state_directory, "test")


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
