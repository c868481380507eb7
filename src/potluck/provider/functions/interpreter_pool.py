"""The interpreters of this node: lent to one attempt at a time, kept warm for a while after it.

An idle one is given up when its time is over, when it has served enough, when it goes on computing
though nobody has asked, and at once when anything else is to run on one of its devices, when its
memory is needed, and when its device closes. Who waits for that waits until nothing of it is left:
what it held of the device is free by then.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from msgspec import Struct

from potluck.local.shielded import undisturbed
from potluck.provider.control.message import WarmNow
from potluck.provider.event import DevicesClosed, DevicesWanted, Event, ShutdownAsked
from potluck.provider.functions.interpreter import Interpreter
from potluck.provider.functions.interpreter_key import WarmKey, device_uuids
from potluck.provider.sandbox.driver import (
    Confinement,
    Driver,
    Errand,
    Output,
    StopRequest,
)
from potluck.wire.provider import Grant


class WarmSettings(Struct, frozen=True):
    """How long an idle one is kept, and after what it has served long enough."""

    idle_seconds: float = 60.0
    most_items: int = 100_000
    most_seconds: float = 3600.0
    memory_bytes: int = 2**62  # of the node, for all tasks and all that is warm
    look_seconds: float = 1.0  # between two looks whether an idle one is


USUAL = WarmSettings()


class Pins(Struct, frozen=True):
    """What was prepared for an attempt, and outlives it together with an interpreter."""

    share: Callable[[str, str], None]  # what the one holds the other holds too
    release: Callable[[str], None]


class Borrower(Struct, frozen=True):
    """For whom an interpreter is there: whose log, files and recall."""

    attempt_id: str
    output: Output
    errand: Errand
    recall: StopRequest


class WarmPool:
    """One for each sandbox driver. `close` it."""

    def __init__(self, driver: Driver, settings: WarmSettings, pins: Pins) -> None:
        self._driver = driver
        self._settings = settings
        self._pins = pins
        self._idle: list[Interpreter] = []
        self._ending: dict[Interpreter, asyncio.Task[None]] = {}
        self._timers: dict[Interpreter, asyncio.TimerHandle] = {}
        self._memory: dict[str, int] = {}  # that attempts have, by id
        self._numbers = itertools.count(1)

    def now(self) -> tuple[WarmNow, ...]:
        now = time.monotonic()
        return tuple(
            WarmNow(one.key.devices, now - one.since, one.memory_bytes, one.served_items)
            for one in self._idle
            if one.is_sound
        )

    @asynccontextmanager
    async def beside(self, grant: Grant, key: WarmKey | None = None) -> AsyncIterator[None]:
        """While an attempt runs, nothing idle is in its way but what is warm for itself."""
        self._memory[grant.attempt_id] = grant.requirements.memory_bytes
        try:
            await self._make_way(set(device_uuids(grant)), key)
            yield
        finally:
            del self._memory[grant.attempt_id]

    @asynccontextmanager
    async def lend(
        self, key: WarmKey, confinement: Confinement, borrower: Borrower
    ) -> AsyncIterator[Interpreter]:
        """A warm one, or a fresh one. Kept only if all went well; raises Broken if none begins."""
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
            is_kept = self._is_good_for_more(interpreter)
        finally:
            if interpreter is not None:
                interpreter.rest()
                if is_kept:
                    self._keep(interpreter)
                else:
                    await undisturbed(self._end(interpreter))

    def hear(self, event: Event) -> None:
        """A device that closes, or is wanted back, is held by nothing of ours."""
        match event:
            case DevicesClosed(refusals):
                self._give_up(set(refusals))
            case DevicesWanted(grace_seconds):
                self._give_up(set(grace_seconds))
            case ShutdownAsked():
                self._begin_to_end(list(self._idle))

    async def close(self) -> None:
        self._begin_to_end(list(self._idle))
        await self._until_ended(list(self._ending))

    def _take(self, key: WarmKey) -> Interpreter | None:
        found = next((one for one in self._idle if one.key == key and one.is_sound), None)
        if found is not None:
            self._forget(found)
        return found

    def _keep(self, interpreter: Interpreter) -> None:
        self._idle.append(interpreter)
        self._look_later(interpreter)

    def _look_later(self, interpreter: Interpreter) -> None:
        left_seconds = interpreter.since + self._settings.idle_seconds - time.monotonic()
        self._timers[interpreter] = asyncio.get_running_loop().call_later(
            min(left_seconds, self._settings.look_seconds), self._look, interpreter
        )

    def _look(self, interpreter: Interpreter) -> None:
        is_over = time.monotonic() >= interpreter.since + self._settings.idle_seconds
        if is_over or interpreter.computes_on():
            self._begin_to_end([interpreter])
        else:
            self._look_later(interpreter)

    def _is_good_for_more(self, interpreter: Interpreter) -> bool:
        limits = self._settings
        is_young = time.monotonic() - interpreter.born < limits.most_seconds
        is_fresh = interpreter.served_items < limits.most_items and limits.idle_seconds > 0
        return interpreter.is_sound and is_young and is_fresh

    async def _make_way(self, devices: set[str], key: WarmKey | None) -> None:
        in_the_way = [
            one for one in self._idle if one.key != key and devices.intersection(one.key.devices)
        ]
        self._begin_to_end(in_the_way)
        too_large = self._too_large(key)
        self._begin_to_end(too_large)
        held = [one for one in self._ending if devices.intersection(one.key.devices)]
        await self._until_ended([*held, *too_large])

    def _too_large(self, key: WarmKey | None) -> list[Interpreter]:
        """The longest idle ones whose memory is needed now."""
        needed = sum(self._memory.values()) - self._settings.memory_bytes
        others = [one for one in self._idle if one.key != key]
        needed += sum(one.key.memory_bytes for one in others)
        ended = []
        for one in others:
            if needed <= 0:
                break
            needed -= one.key.memory_bytes
            ended.append(one)
        return ended

    def _give_up(self, devices: set[str]) -> None:
        self._begin_to_end([one for one in self._idle if devices.intersection(one.key.devices)])

    def _begin_to_end(self, interpreters: Iterable[Interpreter]) -> None:
        for one in list(interpreters):
            self._forget(one)
            self._ending[one] = asyncio.create_task(self._end(one))

    def _forget(self, interpreter: Interpreter) -> None:
        self._idle.remove(interpreter)
        self._timers.pop(interpreter).cancel()

    async def _end(self, interpreter: Interpreter) -> None:
        try:
            await interpreter.end()
        finally:
            self._pins.release(interpreter.name)
            self._ending.pop(interpreter, None)

    async def _until_ended(self, interpreters: Iterable[Interpreter]) -> None:
        tasks = [self._ending[one] for one in interpreters if one in self._ending]
        if tasks:
            await asyncio.wait(tasks)
