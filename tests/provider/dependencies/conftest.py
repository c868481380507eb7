"""A real sandbox, a real uv, and a package index of our own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.script import ScriptMetadata
from potluck.model.task import GIB, MIB, Limits
from potluck.provider.dependencies.outcome import Environment
from potluck.provider.dependencies.package_index import PackageIndex
from potluck.provider.dependencies.preparer import Preparer
from potluck.provider.dependencies.pythons import PythonSource
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.egress.egress import Egress
from potluck.provider.egress.serving_socket import leftover_directories
from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver
from potluck.provider.sandbox.driver import Confinement, Driver, RunHooks, RunOutcome
from potluck.provider.server.throttle import Throttle
from tests.orphans import orphans_are_let_go
from tests.provider.dependencies.package_index import LoopbackIndex, loopback_index, wheel

__all__ = ["PreparationHarness", "index", "orphans_are_let_go", "preparation"]


class PreparationHarness:
    """A preparer on a directory of its own, and a sandbox to try its environments in."""

    def __init__(self, driver: Driver, directory: Path, index: PackageIndex):
        self.driver = driver
        self.directory = directory
        self.index = index
        self.said = bytearray()
        self.pythons = PythonSource()
        self.restart()

    def restart(self, settings: PrepareSettings | None = None) -> None:
        """A new life of the provider, on the same directory."""
        self.egress = Egress(self.directory, Throttle())
        self.preparer = Preparer(
            *(self.driver, self.directory, self.index, self.egress, settings, self.pythons)
        )

    async def prepare(
        self,
        *dependencies: str,
        account: str = "account_a",
        name: str = "attempt_1",
        seconds: float = 60.0,
    ) -> Environment:
        metadata = ScriptMetadata(None, dependencies)
        limits = Limits(prepare_seconds=seconds)
        return await self.preparer.prepare(name, account, metadata, limits, self.hear)

    async def hear(self, stream: str, data: bytes) -> None:
        assert stream == "potluck"
        self.said.extend(data)

    async def run(self, environment: Environment, code: str) -> tuple[RunOutcome, str]:
        """Runs code with the environment's interpreter, in a sandbox as a task's."""
        output = bytearray()

        async def hear(stream: str, data: bytes) -> None:
            output.extend(data)

        async def started() -> None:
            pass

        confinement = Confinement(
            name="attempt_1-try",
            command=(environment.interpreter, "-c", code),
            memory_bytes=GIB,
            disk_bytes=16 * MIB,
            processes=64,
            cores=1,
            seconds=30.0,
            mounts=environment.mounts,
        )
        outcome = await self.driver.run(confinement, hear, RunHooks(started))
        return outcome, output.decode()

    def staged(self) -> list[Path]:
        """What unfinished installations have on disk, sockets included."""
        staging = self.directory / "staging"
        return [*staging.glob("*"), *leftover_directories(self.directory)]

    def shelved(self) -> list[Path]:
        return list(self.directory.glob("accounts/*/*/environment"))


@pytest.fixture
def index() -> Iterator[LoopbackIndex]:
    """An index with one kind package, `kind`."""
    with loopback_index() as served:
        served.add("kind", *wheel("kind", {"kind.py": b"word = 'please'\n"}))
        yield served


@pytest.fixture
def preparation(tmp_path: Path, index: LoopbackIndex) -> PreparationHarness:
    driver = BubblewrapDriver(tmp_path / "sandbox", "node")
    return PreparationHarness(driver, tmp_path / "environments", PackageIndex(index.url))
