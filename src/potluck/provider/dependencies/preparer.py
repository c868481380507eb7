"""Prepares read-only environments with the dependencies of scripts.

An environment belongs to one account, lock and Python. It is made once even for concurrent
requests, and reused while it is cached. Cancelling `prepare` ends everything that it started. No
process outside a sandbox ever starts an environment's interpreter or imports from it.
"""

import asyncio
import os
import time
from functools import partial
from pathlib import Path

from msgspec import Struct

from potluck.model.script import ScriptMetadata
from potluck.model.task import EndReason, Limits
from potluck.provider.dependencies.directory_size import check_room, check_size, missing_bytes
from potluck.provider.dependencies.environment_cache import EnvironmentCache, digest
from potluck.provider.dependencies.installer import INTERPRETER, Installer
from potluck.provider.dependencies.keyed_locks import KeyedLocks
from potluck.provider.dependencies.lock import lock_hash
from potluck.provider.dependencies.outcome import SYSTEM_PYTHON, Environment, PrepareFailed
from potluck.provider.dependencies.package_index import PackageIndex
from potluck.provider.dependencies.pythons import ChosenPython, Pythons, PythonSource
from potluck.provider.dependencies.seal import seal
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.dependencies.staging import Stage, remove_trees, staged
from potluck.provider.egress.egress import Egress
from potluck.provider.sandbox.driver import ENVIRONMENT, Driver, Mount, Output


class _EnvironmentRequest(Struct, frozen=True):
    name: str
    account_id: str
    metadata: ScriptMetadata
    python: ChosenPython
    output: Output


class Preparer:
    """One for each provider, which owns `directory`."""

    def __init__(
        self,
        driver: Driver,
        directory: Path,
        index: PackageIndex,
        egress: Egress,
        settings: PrepareSettings | None = None,
        pythons: PythonSource | None = None,
    ):
        self._settings = settings or PrepareSettings()
        self._index = index
        self._installer = Installer(driver, index, self._settings, egress)
        self._cache = EnvironmentCache(directory)
        self._locks = KeyedLocks()
        self._pythons = Pythons(
            *(driver, self._installer, self._cache, self._settings, self._locks),
            pythons or PythonSource(),
            self._make_room,
        )
        self._in_use: dict[str, set[Path]] = {}

    async def reap(self) -> None:
        """Removes unfinished installations of an earlier process; call it once at start."""
        await remove_trees(self._cache.staging)
        self._cache.forget_before(time.time() - self._settings.lock_seconds)

    async def prepare(
        self, name: str, account_id: str, metadata: ScriptMetadata, limits: Limits, output: Output
    ) -> Environment:
        """The environment for a script, held until `release(name)`; raises PrepareFailed.

        `name` is the attempt's id; `output` receives the installer's output.
        """
        if metadata == ScriptMetadata():
            return SYSTEM_PYTHON
        try:
            async with asyncio.timeout(limits.prepare_seconds) as timeout:
                return await self._prepare(name, account_id, metadata, output)
        except OSError as error:
            if not timeout.expired():
                sentence = f"This node could not prepare an environment: {error}."
                raise PrepareFailed(EndReason.SANDBOX_FAILED, sentence) from error
            sentence = f"Installing the dependencies took longer than {limits.prepare_seconds:g} s."
            raise PrepareFailed(EndReason.PREPARE_TIME_LIMIT, sentence) from None

    def share(self, name: str, other: str) -> None:
        """Lets `other` hold what `name` holds, until `release(other)`."""
        if name in self._in_use:
            self._in_use[other] = set(self._in_use[name])

    def release(self, name: str) -> None:
        """The environment may be evicted from now on."""
        self._in_use.pop(name, None)

    async def _prepare(
        self, name: str, account_id: str, metadata: ScriptMetadata, output: Output
    ) -> Environment:
        hold = partial(self._hold, name)
        python = await self._pythons.choose(name, metadata.requires_python, hold, output)
        if not metadata.dependencies:
            return _without_packages(python)
        request = _EnvironmentRequest(name, account_id, metadata, python, output)
        async with self._locks.take(account_id, self._requirements(request)):
            return await self._find_or_make(request)

    def _requirements(self, request: _EnvironmentRequest) -> str:
        """Identifies a resolution: equal inputs are expected to give the same lock."""
        python = request.python.facts
        return digest(
            *(self._index.url, str(self._settings.allow_builds), python.version, python.platform),
            *request.metadata.dependencies,
        )

    async def _find_or_make(self, request: _EnvironmentRequest) -> Environment:
        requirements = self._requirements(request)
        lock = self._cache.recall(request.account_id, requirements, self._settings.lock_seconds)
        environment = None if lock is None else self._find(request, lock)
        if environment is not None:
            return environment
        count = len(request.metadata.dependencies)
        line = f"Installing {count} dependenc{'y' if count == 1 else 'ies'} …\n"
        await request.output("potluck", line.encode())
        async with staged(self._cache.staging, request.name) as stage:
            await self._make_room()
            check_room(stage.directory)
            if lock is None:
                lock = await self._installer.resolve(
                    stage, request.metadata, request.python.base, request.output
                )
                self._cache.remember(request.account_id, requirements, lock)
            try:
                environment = await self._find_or_install(request, stage, lock)
            except PrepareFailed:
                # The index may have changed since; the next attempt resolves again.
                self._cache.forget(request.account_id, requirements)
                raise
        await self._make_room()
        return environment

    async def _find_or_install(
        self, request: _EnvironmentRequest, stage: Stage, lock: str
    ) -> Environment:
        # Other requirements may have resolved to the same lock meanwhile.
        async with self._locks.take(request.account_id, lock):
            return self._find(request, lock) or await self._install(request, stage, lock)

    async def _make_room(self) -> None:
        in_use = set().union(*self._in_use.values())
        missing = missing_bytes(self._cache.staging)
        await remove_trees(*self._cache.evict(self._settings.shelf_bytes, missing, in_use))

    def _find(self, request: _EnvironmentRequest, lock: str) -> Environment | None:
        if not lock:
            return _without_packages(request.python)  # all markers exclude this platform
        path = self._cache.find(request.account_id, lock_hash(lock, request.python.facts))
        return None if path is None else self._held(request, path)

    async def _install(self, request: _EnvironmentRequest, stage: Stage, lock: str) -> Environment:
        await self._installer.install(stage, lock, request.python.base, request.output)
        paths = request.python.facts.paths
        size = await asyncio.to_thread(seal, stage.environment, paths)
        check_size(size, self._settings)
        await asyncio.to_thread(os.sync)
        # No await from here on, so that a cancellation leaves no incomplete entry.
        key = lock_hash(lock, request.python.facts)
        path = self._cache.place(stage.directory, request.account_id, key, size)
        return self._held(request, path)

    def _hold(self, name: str, path: Path) -> None:
        self._in_use.setdefault(name, set()).add(path)

    def _held(self, request: _EnvironmentRequest, path: Path) -> Environment:
        self._hold(request.name, path)
        own = Mount(path, ENVIRONMENT)
        return Environment(INTERPRETER, (own, *request.python.base.mounts))


def _without_packages(python: ChosenPython) -> Environment:
    if python.path is None:
        return SYSTEM_PYTHON
    return Environment(python.base.interpreter, python.base.mounts)
