"""The interpreters of this node: lent to one attempt at a time and kept warm for a while after it.

An idle interpreter is ended when its idle time is over, when it has served enough items, or when it
keeps computing; and immediately when another attempt needs one of its devices or its memory, or
when a device closes. Callers that wait for this wait until all its processes are dead, so that its
device memory is free.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from msgspec import Struct

from potluck.local.shielded import finish_despite_cancel
from potluck.provider.control.message import WarmNow
from potluck.provider.event import DevicesClosed, DevicesWanted, Event, ShutdownRequested
from potluck.provider.functions.interpreter import Interpreter, WarmKey, device_uuids
from potluck.provider.sandbox.driver import Confinement, Driver, Errand, Output, StopRequest
from potluck.wire.provider import Grant


class WarmSettings(Struct, frozen=True):
    """When an idle interpreter is ended."""

    idle_seconds: float = 60.0
    most_items: int = 100_000
    most_seconds: float = 3600.0
    memory_bytes: int = 2**62  # of the node, for all tasks and idle interpreters
    look_seconds: float = 1.0  # between two checks whether an idle one computes


DEFAULT_WARM_SETTINGS = WarmSettings()


class HeldFiles(Struct, frozen=True):
    """Files prepared for an attempt that an interpreter needs beyond the attempt."""

    share: Callable[[str, str], None]  # the second name holds what the first one holds
    release: Callable[[str], None]


class Borrower(Struct, frozen=True):
    """The attempt that uses an interpreter: its log, files and stop request."""

    attempt_id: str
    output: Output
    errand: Errand
    recall: StopRequest


class WarmPool:
    """One pool for each sandbox driver. Call `close` at the end."""

    def __init__(self, driver: Driver, settings: WarmSettings, pins: HeldFiles) -> None:
        self._driver = driver
        self._settings = settings
        self._pins = pins
        self._idle: list[Interpreter] = []
        self._ending: dict[Interpreter, asyncio.Task[None]] = {}
        self._timers: dict[Interpreter, asyncio.TimerHandle] = {}
        self._memory: dict[str, int] = {}  # bytes by attempt id
        self._numbers = itertools.count(1)

    def now(self) -> tuple[WarmNow, ...]:
        now = time.monotonic()
        return tuple(
            WarmNow(idle.key.devices, now - idle.since, idle.memory_bytes, idle.served_items)
            for idle in self._idle
            if idle.is_sound
        )

    @asynccontextmanager
    async def beside(self, grant: Grant, key: WarmKey | None = None) -> AsyncIterator[None]:
        """Frees the attempt's devices and memory of idle interpreters with other keys."""
        self._memory[grant.attempt_id] = grant.requirements.memory_bytes
        try:
            await self._free_resources(set(device_uuids(grant)), key)
            yield
        finally:
            del self._memory[grant.attempt_id]

    @asynccontextmanager
    async def lend(
        self, key: WarmKey, confinement: Confinement, borrower: Borrower
    ) -> AsyncIterator[Interpreter]:
        """Lends a warm interpreter or a new one, and keeps it afterwards if all went well.

        Raises InterpreterBroken if a new one cannot start.
        """
        interpreter = self._take(key)
        is_kept = False
        try:
            if interpreter is None:
                name = f"{confinement.name}-{next(self._numbers)}"
                interpreter = Interpreter(key, self._driver, name)
                self._pins.share(borrower.attempt_id, name)
                interpreter.serve(borrower.output, borrower.errand, borrower.recall)
                await interpreter.start(confinement)
            else:
                interpreter.serve(borrower.output, borrower.errand, borrower.recall)
            yield interpreter
            is_kept = self._is_reusable(interpreter)
        finally:
            if interpreter is not None:
                interpreter.rest()
                if is_kept:
                    self._keep(interpreter)
                else:
                    await finish_despite_cancel(self._end(interpreter))

    def hear(self, event: Event) -> None:
        """Ends idle interpreters on devices that close or that their owner needs."""
        match event:
            case DevicesClosed(refusals):
                self._end_on_devices(set(refusals))
            case DevicesWanted(grace_seconds):
                self._end_on_devices(set(grace_seconds))
            case ShutdownRequested():
                self._start_ending(list(self._idle))

    async def close(self) -> None:
        self._start_ending(list(self._idle))
        await self._wait_until_ended(list(self._ending))

    def _take(self, key: WarmKey) -> Interpreter | None:
        interpreter = next((idle for idle in self._idle if idle.key == key and idle.is_sound), None)
        if interpreter is not None:
            self._forget(interpreter)
        return interpreter

    def _keep(self, interpreter: Interpreter) -> None:
        self._idle.append(interpreter)
        self._schedule_check(interpreter)

    def _schedule_check(self, interpreter: Interpreter) -> None:
        left_seconds = interpreter.since + self._settings.idle_seconds - time.monotonic()
        self._timers[interpreter] = asyncio.get_running_loop().call_later(
            min(left_seconds, self._settings.look_seconds), self._check_idle, interpreter
        )

    def _check_idle(self, interpreter: Interpreter) -> None:
        is_over = time.monotonic() >= interpreter.since + self._settings.idle_seconds
        if is_over or interpreter.computes_on():
            self._start_ending([interpreter])
        else:
            self._schedule_check(interpreter)

    def _is_reusable(self, interpreter: Interpreter) -> bool:
        limits = self._settings
        is_young = time.monotonic() - interpreter.born < limits.most_seconds
        is_fresh = interpreter.served_items < limits.most_items and limits.idle_seconds > 0
        return interpreter.is_sound and is_young and is_fresh

    async def _free_resources(self, devices: set[str], key: WarmKey | None) -> None:
        in_the_way = [
            idle
            for idle in self._idle
            if idle.key != key and devices.intersection(idle.key.devices)
        ]
        self._start_ending(in_the_way)
        to_free = self._find_memory_to_free(key)
        self._start_ending(to_free)
        ending_interpreters = [
            ending for ending in self._ending if devices.intersection(ending.key.devices)
        ]
        await self._wait_until_ended([*ending_interpreters, *to_free])

    def _find_memory_to_free(self, key: WarmKey | None) -> list[Interpreter]:
        """The longest idle interpreters whose memory is needed now."""
        needed = sum(self._memory.values()) - self._settings.memory_bytes
        others = [idle for idle in self._idle if idle.key != key]
        needed += sum(interpreter.key.memory_bytes for interpreter in others)
        ended = []
        for interpreter in others:
            if needed <= 0:
                break
            needed -= interpreter.key.memory_bytes
            ended.append(interpreter)
        return ended

    def _end_on_devices(self, devices: set[str]) -> None:
        self._start_ending([idle for idle in self._idle if devices.intersection(idle.key.devices)])

    def _start_ending(self, interpreters: Iterable[Interpreter]) -> None:
        for interpreter in list(interpreters):
            self._forget(interpreter)
            self._ending[interpreter] = asyncio.create_task(self._end(interpreter))

    def _forget(self, interpreter: Interpreter) -> None:
        self._idle.remove(interpreter)
        self._timers.pop(interpreter).cancel()

    async def _end(self, interpreter: Interpreter) -> None:
        try:
            await interpreter.end()
        finally:
            self._pins.release(interpreter.name)
            self._ending.pop(interpreter, None)

    async def _wait_until_ended(self, interpreters: Iterable[Interpreter]) -> None:
        tasks = [self._ending[ended] for ended in interpreters if ended in self._ending]
        if tasks:
            await asyncio.wait(tasks)
