"""A script's needs in, a read-only environment out.

An environment belongs to one account and one lock (and one Python), is made once even when many
ask at the same time, and is used again for as long as it is on the shelf. Cancelling `prepare`
ends everything that it started. No process outside a sandbox ever starts an environment's
interpreter or imports from it.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import Struct

from potluck.model.script import ScriptMetadata
from potluck.model.task import EndReason, Limits
from potluck.provider.dependencies.directory_size import check_room, check_size, missing_bytes
from potluck.provider.dependencies.environment_cache import EnvironmentCache, digest
from potluck.provider.dependencies.installer import INTERPRETER, Installer
from potluck.provider.dependencies.lock import lock_hash
from potluck.provider.dependencies.outcome import BARE, Environment, PrepareFailed
from potluck.provider.dependencies.package_index import PackageIndex
from potluck.provider.dependencies.python_facts import PythonFacts, check_version, find_python_facts
from potluck.provider.dependencies.seal import seal
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.dependencies.staging import (
    Stage,
    remove,
    remove_all_stages,
    staged,
)
from potluck.provider.sandbox.driver import ENVIRONMENT, Driver, Mount, Output
from potluck.provider.server.throttle import Throttle


class _EnvironmentRequest(Struct, frozen=True):
    """Who wants which environment, and what decides whether an old one will do."""

    name: str
    account_id: str
    metadata: ScriptMetadata
    python: PythonFacts
    output: Output


class Preparer:
    """One for each provider; `directory` is its alone."""

    def __init__(
        self,
        driver: Driver,
        directory: Path,
        index: PackageIndex,
        throttle: Throttle,
        settings: PrepareSettings | None = None,
    ):
        self._settings = settings or PrepareSettings()
        self._driver = driver
        self._index = index
        self._installer = Installer(driver, index, self._settings, throttle)
        self._shelf = EnvironmentCache(directory)
        self._turns = KeyedLocks()
        self._python: PythonFacts | None = None
        self._in_use: dict[str, Path] = {}

    async def reap(self) -> None:
        """Removes what an earlier life of this provider did not finish; call it once at start."""
        await remove_all_stages(self._shelf.staging)
        self._shelf.forget_before(time.time() - self._settings.lock_seconds)

    async def prepare(
        self, name: str, account_id: str, metadata: ScriptMetadata, limits: Limits, output: Output
    ) -> Environment:
        """The environment for a script, kept until `release(name)`; raises PrepareFailed.

        `name` is the attempt's id; what the installation says goes to `output` as it comes.
        """
        if metadata == ScriptMetadata():
            return BARE
        try:
            async with asyncio.timeout(limits.prepare_seconds) as patience:
                return await self._prepare(name, account_id, metadata, output)
        except OSError as error:
            if not patience.expired():
                sentence = f"This node could not prepare an environment: {error}."
                raise PrepareFailed(EndReason.SANDBOX_FAILED, sentence) from error
            sentence = f"Installing the dependencies took longer than {limits.prepare_seconds:g} s."
            raise PrepareFailed(EndReason.PREPARE_TIME_LIMIT, sentence) from None

    def share(self, name: str, other: str) -> None:
        """What the one holds the other holds too, until that releases it."""
        if name in self._in_use:
            self._in_use[other] = self._in_use[name]

    def release(self, name: str) -> None:
        """The attempt is over: its environment may be taken off the shelf when space is short."""
        self._in_use.pop(name, None)

    async def _prepare(
        self, name: str, account_id: str, metadata: ScriptMetadata, output: Output
    ) -> Environment:
        python = await self._find_python_facts(name)
        check_version(python, metadata.requires_python)
        if not metadata.dependencies:
            return BARE
        order = _EnvironmentRequest(name, account_id, metadata, python, output)
        async with self._turns.take(account_id, self._requirements(order)):
            return await self._recall_or_make(order)

    async def _find_python_facts(self, name: str) -> PythonFacts:
        async with self._turns.take("python"):
            if self._python is None:
                self._python = await find_python_facts(self._driver, name)
            return self._python

    def _requirements(self, order: _EnvironmentRequest) -> str:
        """Names a resolution: the same answer can be expected if all of this is the same."""
        python = order.python
        return digest(
            *(self._index.url, str(self._settings.allow_builds), python.version, python.platform),
            *order.metadata.dependencies,
        )

    async def _recall_or_make(self, order: _EnvironmentRequest) -> Environment:
        requirements = self._requirements(order)
        lock = self._shelf.recall(order.account_id, requirements, self._settings.lock_seconds)
        found = None if lock is None else self._find(order, lock)
        if found is not None:
            return found
        count = len(order.metadata.dependencies)
        remark = f"Installing {count} dependenc{'y' if count == 1 else 'ies'} …\n"
        await order.output("potluck", remark.encode())
        async with staged(self._shelf.staging, order.name) as stage:
            await self._make_room()
            check_room(stage.directory)
            if lock is None:
                lock = await self._installer.resolve(stage, order.metadata, order.output)
                self._shelf.remember(order.account_id, requirements, lock)
            try:
                made = await self._find_or_install(order, stage, lock)
            except PrepareFailed:
                # The index may have changed since; the next try asks it again.
                self._shelf.forget(order.account_id, requirements)
                raise
        await self._make_room()
        return made

    async def _find_or_install(
        self, order: _EnvironmentRequest, stage: Stage, lock: str
    ) -> Environment:
        # Other requirements may have led to the same lock meanwhile.
        async with self._turns.take(order.account_id, lock):
            return self._find(order, lock) or await self._install(order, stage, lock)

    async def _make_room(self) -> None:
        in_use = set(self._in_use.values())
        missing = missing_bytes(self._shelf.staging)
        await remove(*self._shelf.take_down(self._settings.shelf_bytes, missing, in_use))

    def _find(self, order: _EnvironmentRequest, lock: str) -> Environment | None:
        if not lock:
            return BARE  # every marker said: not needed here
        path = self._shelf.find(order.account_id, lock_hash(lock, order.python))
        return None if path is None else self._hold(order.name, path)

    async def _install(self, order: _EnvironmentRequest, stage: Stage, lock: str) -> Environment:
        await self._installer.install(stage, lock, order.output)
        size = await asyncio.to_thread(seal, stage.environment, order.python.paths)
        check_size(size, self._settings)
        await asyncio.to_thread(os.sync)
        # No await from here on: cancelled before, it never was there; after, it is complete.
        named = lock_hash(lock, order.python)
        return self._hold(
            order.name, self._shelf.place(stage.directory, order.account_id, named, size)
        )

    def _hold(self, name: str, path: Path) -> Environment:
        self._in_use[name] = path
        return Environment(INTERPRETER, (Mount(path, ENVIRONMENT),))


class KeyedLocks:
    """One at a time for each key, so that what several ask for at once is done once.

    A lock lives as long as somebody holds or awaits it.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def take(self, *key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
