"""The Pythons of a node: the sandbox's own, and others that are fetched when a task requires one.

A fetched Python depends on its version only, nothing of an account takes part in fetching it, and
uv checks its hash. So all accounts share it, read-only, in the cache of the environments.
"""

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct
from packaging.version import Version

from potluck.model.script import suits_python
from potluck.model.task import EndReason
from potluck.model.units import show_seconds
from potluck.provider.dependencies.directory_size import check_room, check_size
from potluck.provider.dependencies.environment_cache import EnvironmentCache, digest
from potluck.provider.dependencies.installer import BasePython, Installer
from potluck.provider.dependencies.keyed_locks import KeyedLocks
from potluck.provider.dependencies.outcome import HostsUnreachable, PrepareFailed, prepare_failed
from potluck.provider.dependencies.python_facts import PythonFacts, find_python_facts
from potluck.provider.dependencies.python_list import PythonList, choose_version
from potluck.provider.dependencies.seal import seal
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.dependencies.staging import Stage, remove_trees, staged
from potluck.provider.sandbox.driver import Driver, Mount, Output

# Where it is inside.
FETCHED_PYTHON = "/opt/fetched-python"
_SHARED = "pythons"
_PAUSE_SECONDS = 3600.0


class ChosenPython(Struct, frozen=True):
    facts: PythonFacts
    base: BasePython = BasePython()
    path: Path | None = None  # of a fetched one, in the cache


class PythonSource:
    """Where Pythons are fetched from, which there are, and whether the owner allows it now.

    After a fetch that could not reach a host, only versions that were fetched before are offered
    for an hour: other nodes get the tasks that require another one.
    """

    def __init__(
        self,
        python_list: PythonList | None = None,
        versions: tuple[str, ...] = (),
        may_fetch: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.list = python_list or PythonList()
        self.is_fetched: Callable[[str], bool] = lambda _: False
        self._versions = versions
        self._may_fetch = may_fetch
        self._clock = clock
        self._paused_until = -math.inf
        self._hosts = ""

    def offered(self) -> tuple[str, ...]:
        if not self._may_fetch():
            return ()
        if not self.problem():
            return self._versions
        return tuple(version for version in self._versions if self.is_fetched(version))

    def pause(self, hosts: Sequence[str]) -> None:
        self._hosts, self._paused_until = ", ".join(hosts), self._clock() + _PAUSE_SECONDS

    def problem(self) -> str:
        """Why Pythons are not fetched now; empty if they are, or if the owner does not want it."""
        left_seconds = self._paused_until - self._clock()
        if left_seconds <= 0 or not self._may_fetch():
            return ""
        return (
            f"Pythons cannot be fetched: {self._hosts} did not answer."
            f" Other versions are offered again in {show_seconds(left_seconds)}."
        )


class Pythons:
    """One for each preparer, whose cache and locks it uses."""

    def __init__(
        self,
        driver: Driver,
        installer: Installer,
        cache: EnvironmentCache,
        settings: PrepareSettings,
        locks: KeyedLocks,
        source: PythonSource,
        make_room: Callable[[], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._installer = installer
        self._cache = cache
        self._settings = settings
        self._locks = locks
        self._source = source
        source.is_fetched = self._is_fetched
        self._make_room = make_room
        self._own: ChosenPython | None = None
        self._facts: dict[Path, PythonFacts] = {}

    async def choose(
        self, name: str, required: str | None, hold: Callable[[Path], None], output: Output
    ) -> ChosenPython:
        """The sandbox's own Python if it suits, else another; raises PrepareFailed.

        `hold` is called with the path of a fetched one, which is then not evicted.
        """
        async with self._locks.take("python"):
            if self._own is None:
                self._own = ChosenPython(await find_python_facts(self._driver, name))
        own = self._own
        if required is None or suits_python(required, own.facts.version):
            return own
        versions = self._source.offered()
        version = choose_version(versions, required, own.facts.version)
        if version is None and (problem := self._source.problem()):
            raise PrepareFailed(EndReason.SANDBOX_FAILED, problem)
        if version is None:
            raise prepare_failed(
                f"The task requires Python {required}, but the sandbox of this node has"
                f" Python {own.facts.version}{_fetchable(versions)}. Change `requires-python` or"
                " choose another node."
            )
        key = self._key(version)
        async with self._locks.take("python", key):
            path = self._cache.find(_SHARED, key) or await self._fetch(name, version, key, output)
            hold(path)
            return await self._open(name, path, version)

    def _key(self, version: str) -> str:
        return digest(self._source.list.url, version)

    def _is_fetched(self, version: str) -> bool:
        return self._cache.find(_SHARED, self._key(version)) is not None

    async def _fetch(self, name: str, version: str, key: str, output: Output) -> Path:
        await output("potluck", f"Fetching Python {version} …\n".encode())
        async with staged(self._cache.staging, f"{name}-python") as stage:
            await self._make_room()
            check_room(stage.directory)
            try:
                await self._installer.fetch_python(stage, version, self._source.list, output)
            except HostsUnreachable as failure:
                self._source.pause(failure.hosts)
                raise
            await _keep_only_installation(stage)
            size = await asyncio.to_thread(seal, stage.environment, frozenset())
            check_size(size, self._settings)
            try:
                await self._find_facts(name, _base(stage.environment, version))
            except PrepareFailed as failure:
                raise prepare_failed(f"The fetched Python {version} fails: {failure}") from failure
            await asyncio.to_thread(os.sync)
            return self._cache.place(stage.directory, _SHARED, key, size)

    async def _open(self, name: str, path: Path, version: str) -> ChosenPython:
        base = _base(path, version)
        if path not in self._facts:
            self._facts[path] = await self._find_facts(name, base)
        return ChosenPython(self._facts[path], base, path)

    async def _find_facts(self, name: str, base: BasePython) -> PythonFacts:
        return await find_python_facts(self._driver, name, base.interpreter, base.mounts)


def _base(path: Path, version: str) -> BasePython:
    interpreter = f"{FETCHED_PYTHON}/bin/python3.{Version(version).minor}"
    return BasePython(interpreter, (Mount(path, FETCHED_PYTHON),))


def _fetchable(versions: tuple[str, ...]) -> str:
    return f" and can fetch {', '.join(versions)}" if versions else ""


async def _keep_only_installation(stage: Stage) -> None:
    """Of what uv left: its only directory with an interpreter becomes the stage's environment."""
    found = [
        path
        for path in stage.environment.glob("cpython-*")
        if path.is_dir() and not path.is_symlink()
    ]
    if len(found) != 1:
        raise prepare_failed("uv did not install one Python.")
    installed = stage.directory / "installed"
    found[0].rename(installed)
    await remove_trees(stage.environment)
    installed.rename(stage.environment)
