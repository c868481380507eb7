"""The sandbox that attempts run in, with the preparation of their dependencies and files."""

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from potluck.model.ids import AccountId
from potluck.model.node import SandboxReport
from potluck.model.task_spec import ContainerSpec
from potluck.provider.attempt.runner import Runner
from potluck.provider.attempt.usage_meter import ReadSpent
from potluck.provider.dependencies.installer import find_uv
from potluck.provider.dependencies.package_index import PackageIndex, parse_hosts
from potluck.provider.dependencies.preparer import Preparer
from potluck.provider.dependencies.python_list import PythonList, list_versions
from potluck.provider.dependencies.pythons import PythonSource
from potluck.provider.dependencies.settings import PrepareSettings
from potluck.provider.detect.report import Detection
from potluck.provider.devices.offer import MEMORY_SHARE, usable_memory_bytes
from potluck.provider.egress.egress import Egress
from potluck.provider.expose.expose import ExposeFunctions, asks_drivers, expose
from potluck.provider.expose.unusable import UnusableDevices
from potluck.provider.files.cache import FileCache
from potluck.provider.files.volume_cache import VolumeCache
from potluck.provider.functions.interpreter_pool import WarmSettings
from potluck.provider.metrics.sandbox_times import ObserveStart, TimedDriver
from potluck.provider.owner.file import NodeLimits
from potluck.provider.sandbox.choose import ChosenSandbox, DriverSite, choose
from potluck.provider.sandbox.driver import Driver
from potluck.provider.settings import ProviderSettings
from potluck.wire.provider import Grant


class Execution(Struct, frozen=True):
    driver: Driver
    preparer: Preparer
    cache: FileCache
    egress: Egress
    volumes: VolumeCache
    report: SandboxReport
    containers: SandboxReport | None = None  # of the container engine, if it is another driver
    pythons: PythonSource = field(default_factory=PythonSource)

    async def reap(self) -> None:
        """Cleans up after an earlier process. Called before anything runs."""
        await self.driver.reap()
        await self.preparer.reap()
        self.egress.reap()

    def runner(
        self,
        settings: ProviderSettings,
        detection: Detection,
        may_run: Callable[[AccountId, Grant], str | None],
        account_id: AccountId,
        read_spent: ReadSpent,
        unusable: UnusableDevices,
    ) -> Runner:
        """The server respects the sandbox report; accounts are checked here as well."""
        devices = detection.found
        show = ExposeFunctions(
            partial(expose, found=devices, is_walled=self.driver.encloses_processes),
            partial(asks_drivers, found=devices),
            unusable,
        )

        def is_taken(grant: Grant) -> str | None:
            return self.why_own_only(account_id, grant) or may_run(account_id, grant)

        warm = WarmSettings(
            settings.warm_seconds,
            settings.warm_items,
            60 * settings.warm_minutes,
            settings.memory_bytes or int(usable_memory_bytes() * MEMORY_SHARE),
        )
        parts = (self.driver, self.preparer, self.cache, self.egress)
        return Runner(
            *parts,
            settings.outcome_flush_seconds,
            is_taken,
            show,
            warm,
            read_spent,
            volumes=self.volumes,
            owner_id=account_id,
        )

    def why_own_only(self, owner_id: AccountId, grant: Grant) -> str | None:
        """Why the sandbox for this task does not take it, if it is of another account."""
        has_engine = self.containers is not None and isinstance(grant.spec, ContainerSpec)
        report = self.containers if has_engine else self.report
        if grant.account_id == owner_id or report is None or report.is_safe_for_strangers:
            return None
        return (
            f"The node's sandbox {report.weakness}, so it runs only tasks of its owner's account."
        )


def choose_sandbox_name(settings: ProviderSettings, sandbox: str | None) -> str:
    """The sandbox in the owner's file, else the one from the options."""
    return sandbox or ("none" if settings.unsafe_no_sandbox else "bwrap")


async def open_execution(
    settings: ProviderSettings,
    egress: Egress,
    limits: Callable[[], NodeLimits],
    observe: ObserveStart | None,
    volumes: VolumeCache,
    sandbox: str,
) -> Execution:
    directory = settings.data_directory / "sandbox"
    site = DriverSite(
        *(directory, settings.name, settings.docker_url),
        lambda: limits().pulls_images,
        lambda: limits().others_on_disk,
    )
    pythons = PythonList(settings.python_list_url)
    chosen, versions = await asyncio.gather(
        choose(site, sandbox), list_versions(find_uv(), pythons)
    )
    driver = chosen.driver if observe is None else _timed(chosen, observe)
    source = PythonSource(pythons, versions, lambda: limits().fetches_pythons)
    preparer = Preparer(
        driver,
        settings.data_directory / "environments",
        PackageIndex(settings.index_url, parse_hosts(settings.index_hosts)),
        egress,
        PrepareSettings(
            allow_builds=settings.allow_builds, shelf_bytes=settings.environments_bytes
        ),
        source,
    )
    cache = FileCache(settings.data_directory / "files", settings.files_bytes)
    reports = (chosen.report, chosen.containers)
    return Execution(driver, preparer, cache, egress, volumes, *reports, source)


def _timed(chosen: ChosenSandbox, observe: ObserveStart) -> TimedDriver:
    images = chosen.containers or chosen.report
    return TimedDriver(chosen.driver, chosen.report.driver, images.driver, observe)
