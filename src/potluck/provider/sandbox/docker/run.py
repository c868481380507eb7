"""One run in a container, from creating the container to removing it."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from potluck.local.shielded import finish_despite_cancel
from potluck.model.error import PotluckError
from potluck.model.task import EndReason
from potluck.provider.egress.relay import proxy_variables
from potluck.provider.sandbox.bubblewrap.root_filesystem import VARIABLES, Python
from potluck.provider.sandbox.disk_image import ImageFailed
from potluck.provider.sandbox.docker import nvidia
from potluck.provider.sandbox.docker.attach import attach
from potluck.provider.sandbox.docker.bridge import Bridge
from potluck.provider.sandbox.docker.container_cgroup import ContainerGroup, find_container_group
from potluck.provider.sandbox.docker.container_config import ContainerConfig, ContainerDefaults
from potluck.provider.sandbox.docker.engine import NAME_TAKEN, Engine, EngineError, Image
from potluck.provider.sandbox.docker.root import InitCommand, init_on_any_image
from potluck.provider.sandbox.docker.work_directory import ContainerWork
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    PYTHON,
    STDIN,
    WORK,
    Confinement,
    InputFailed,
    Output,
    ResourceUse,
    RunHooks,
    RunOutcome,
    StopRequest,
    StopRequested,
    WorkDirectory,
    cancel_all,
    outcome_of_shell_code,
    stage_inputs,
)
from potluck.provider.sandbox.enclosure import sandbox_failed
from potluck.provider.sandbox.limits import (
    WATCH_SECONDS,
    LimitCheck,
    RunHandles,
    check_disk,
    check_memory,
    check_processes,
    check_time,
    first_exceeded,
    supervise,
)
from potluck.provider.sandbox.output_pump import OutputPump
from potluck.provider.sandbox.work_disk import WorkDisk, WorkDisks

# For a work directory without a size limit of its own, which is scanned each time.
_SLOW_WATCH_SECONDS = 0.5
_READY_SECONDS = 120.0  # for the init process to start on a busy machine
_NOTHING_USED = ResourceUse(0.0, 0)


class ContainerUser(Struct, frozen=True):
    """The user and group of a run."""

    user: int
    group: int
    owns_files_of_host: bool  # whether writable mounts must be chowned to the user


class ContainerSettings(Struct, frozen=True):
    """What a driver determines once for all its runs; bubblewrap has BwrapSettings."""

    engine: Engine
    name: str
    directory: Path
    defaults: ContainerDefaults
    python: Python
    init: InitCommand
    own_image: str
    disks: WorkDisks
    new_user: Callable[[], ContainerUser]
    find_image: Callable[[str], Awaitable[Image]]  # raises InputFailed


class ContainerRun:
    """A single run; call `to_its_end` once."""

    def __init__(
        self,
        settings: ContainerSettings,
        confinement: Confinement,
        output: Output,
        hooks: RunHooks = NO_HOOKS,
    ) -> None:
        self._settings = settings
        self._confinement = confinement
        self._hooks = hooks
        self._recall = hooks.recall or StopRequest()
        self._log = OutputPump(output)
        self._short_name = re.sub(r"[^A-Za-z0-9_.-]", "_", confinement.name)
        self._name = f"{settings.name}-{self._short_name}"
        self._config: ContainerConfig | None = None
        self._disk: WorkDisk | None = None
        self._work: ContainerWork | None = None
        self._prepared_work: WorkDirectory | None = None  # set once the command may start
        self._container: str | None = None
        self._bridge: Bridge | None = None
        self._checks: list[LimitCheck] = []
        self._late: RunOutcome | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._run_seconds = 0.0
        self._usage = _NOTHING_USED
        self.group: ContainerGroup | None = None

    @property
    def config(self) -> ContainerConfig:
        assert self._config is not None
        return self._config

    async def to_its_end(self) -> RunOutcome:
        try:
            exceeded = self._recall.said or await self._set_up() or await self._live()
            await finish_despite_cancel(self._remove())
            if self._pumping is not None:
                await self._pumping
            outcome = self._outcome(exceeded)
            if self._prepared_work is not None:
                await self._hooks.errand.after(self._prepared_work, outcome.reason)
            return self._measured(outcome)
        finally:
            await finish_despite_cancel(self._clear())

    async def _set_up(self) -> RunOutcome | None:
        """Sets everything up except for starting the command; a stop request interrupts a pull."""
        try:
            return await self._recall.unless(self._prepare())
        except StopRequested as recalled:
            return recalled.touched

    async def _prepare(self) -> RunOutcome | None:
        try:
            image = await self._find_image()
            self._disk = await self._settings.disks.take(self._confinement)
            self._config = self._make_config(image, self._disk)
            await finish_despite_cancel(self._create())
            if self._bridge is None or not await self._is_ready(self._bridge):
                error = self._bridge.last_words if self._bridge else ""
                return sandbox_failed(error or "the container exited without an error message")
            await asyncio.to_thread(self._disk.detach)
            self.group = find_container_group(
                await self._settings.engine.pid(self._container or "")
            )
            work = self.config.work
            user = self._config.user if self._must_chown else None
            prepared_work = WorkDirectory(work.descriptor, user)
            if (
                failed := await stage_inputs(self._hooks.errand, prepared_work, self._recall)
            ) is not None:
                return failed
            self._prepared_work = prepared_work
        except InputFailed as failure:
            return failure.touched
        except (EngineError, PotluckError, ImageFailed, OSError) as failure:
            return sandbox_failed(f"the sandbox could not be set up: {failure}")
        return None

    async def _is_ready(self, bridge: Bridge) -> bool:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                return await bridge.ready()
        except TimeoutError:
            detail = f"the container did not start within {_READY_SECONDS:g} s"
            raise EngineError(detail) from None

    async def _find_image(self) -> Image:
        name = self._confinement.image
        if name is None:
            return Image(self._settings.own_image)
        if nvidia.wants_cards(self._confinement.device_nodes):
            nvidia.check_toolkit(await nvidia.toolkit_version())
        image = await self._with_timeout(name, self._settings.find_image(name))
        if not self._words(image):
            raise InputFailed(f"neither the image {name} nor the task has a command")
        return image

    async def _with_timeout(self, name: str, finding: Awaitable[Image]) -> Image:
        """Limits the time, since the attempt holds devices meanwhile."""
        seconds = self._confinement.image_seconds
        try:
            async with asyncio.timeout(seconds):
                return await finding
        except TimeoutError:
            sentence = f"pulling the image {name} took longer than {seconds:g} s"
            raise InputFailed(sentence, EndReason.PREPARE_TIME_LIMIT) from None

    def _make_config(self, image: Image, disk: WorkDisk) -> ContainerConfig:
        confinement, settings = self._confinement, self._settings
        user = settings.new_user()
        self._must_chown = user.owns_files_of_host
        directory = settings.directory / self._short_name
        self._work = ContainerWork(directory, confinement.disk_bytes, disk)
        self._work.put(confinement.files)
        if self._must_chown:
            self._work.hand_over(user.user, [m.source for m in confinement.mounts if m.writable])
        init = settings.init if confinement.image is None else init_on_any_image()
        parts = (confinement, settings.defaults, init, image, user.user, user.group, self._work)
        return ContainerConfig(*parts)

    async def _create(self) -> None:
        """Must not be cancelled: a container must be known in order to be removed."""
        engine = self._settings.engine
        body = self.config.to_json()
        try:
            self._container = await engine.create(self._name, body)
        except EngineError as error:
            if error.status != NAME_TAKEN:
                raise
            # Names of running attempts are unique, so this is a leftover.
            await engine.remove(self._name)
            self._container = await engine.create(self._name, body)
        attachment = await attach(engine.socket, self._container)
        stdin = self._hooks.companion.stdin if self._hooks.companion else None
        self._bridge = Bridge(attachment, stdin, self._confinement.proxy)
        await engine.start(self._container)

    async def _live(self) -> RunOutcome | None:
        assert self._bridge is not None and self._prepared_work is not None
        began = time.monotonic()
        self._checks = self._limits(self._bridge)
        stdin = None if self._confinement.stdin is None else STDIN
        self._bridge.begin(self._command(), self._variables(), stdin)
        await self._hooks.started()
        self._pumping = asyncio.create_task(
            self._log.pump(self._bridge.stdout, self._bridge.stderr)
        )
        checks = [check_time(self._confinement.seconds), *self._checks]
        handles = RunHandles(
            *(self._recall, self._bridge.terminate, self._measure_usage, self._prepared_work),
            *(self._hooks.errand, self._hooks.companion),
        )
        interval_seconds = _SLOW_WATCH_SECONDS if self.config.work.is_watched else WATCH_SECONDS
        ended = self._bridge.ended()
        exceeded = await supervise(
            ended, checks, self._log, self._pumping, handles, interval_seconds
        )
        # The kernel's counters vanish with the container, so they are read now.
        self._run_seconds = time.monotonic() - began
        self._measure_usage()
        await asyncio.to_thread(self.config.work.measure)
        self._late = first_exceeded(self._checks)
        return exceeded

    def _limits(self, bridge: Bridge) -> list[LimitCheck]:
        limit, work = self._confinement, self.config.work
        checks = [check_disk(work.is_full, limit.disk_bytes)]
        overhead = self._settings.defaults.overhead
        if overhead.processes:
            bridge.count(self.config.processes - overhead.processes)
            checks.append(check_processes(lambda: bridge.is_crowded, limit.processes))
        if self.group is None:
            return checks
        group, most_bytes = self.group.counts, limit.memory_bytes + overhead.memory_bytes

        def is_over() -> bool:
            self._measure_usage()
            return group.memory_bytes().beyond(work.used_bytes()) > most_bytes

        return [
            *checks,
            check_processes(group.refused_a_process, limit.processes),
            check_memory(group.was_out_of_memory, limit.memory_bytes),
            check_memory(is_over, limit.memory_bytes),
        ]

    def _measure_usage(self) -> ResourceUse:
        """Keeps the last values: the counters vanish with a container that exits by itself."""
        if self.group is not None:
            group = self.group.counts
            self._usage = ResourceUse(
                max(self._usage.cpu_seconds, group.cpu_seconds() or 0.0),
                max(self._usage.memory_peak_bytes, group.memory_peak_bytes() or 0),
            )
        return self._usage

    def _command(self) -> list[str]:
        if self._confinement.image is None:
            program, *rest = self._confinement.command
            return [self._settings.python.path if program == PYTHON else program, *rest]
        return self._words(self.config.image)

    def _words(self, image: Image) -> list[str]:
        """The command in an image, which may bring all of it or a part."""
        config = image.config
        entry = (config and config.entrypoint) or []
        command = list(self._confinement.command) or (config and config.cmd) or []
        return [*entry, *command]

    def _variables(self) -> dict[str, str]:
        has_network = self._confinement.proxy is not None
        given = {**(proxy_variables() if has_network else {}), **self._confinement.environment}
        if self._confinement.image is None:
            return {**VARIABLES, **self._settings.python.environment, **given}
        config = self.config.image.config
        of_image = dict(entry.partition("=")[::2] for entry in (config and config.env) or ())
        return {**of_image, "HOME": WORK, "TMPDIR": VARIABLES["TMPDIR"], **given}

    def _outcome(self, exceeded: RunOutcome | None) -> RunOutcome:
        if exceeded is not None:
            return exceeded
        own = self._own_end()
        return replace(self._late, exit_code=own.exit_code) if self._late else own

    def _own_end(self) -> RunOutcome:
        status = self._bridge.wait_status if self._bridge else None
        if status is None:
            error = self._bridge.last_words if self._bridge else ""
            detail = "the container exited before its command"
            return RunOutcome(EndReason.SIGNAL, f"{detail}: {error}" if error else detail)
        return outcome_of_shell_code(0, status)

    def _measured(self, outcome: RunOutcome) -> RunOutcome:
        return replace(
            outcome,
            run_seconds=self._run_seconds,
            cpu_seconds=self._usage.cpu_seconds,
            memory_peak_bytes=self._usage.memory_peak_bytes,
            log_bytes=self._log.total_bytes,
        )

    async def _remove(self) -> None:
        """Output is read until the container's end, unless the log has been closed."""
        if self._bridge is not None and (self._pumping is None or self._pumping.done()):
            await self._bridge.hang_up()
        if self._container is not None:
            container, self._container = self._container, None
            await self._settings.engine.remove(container)

    async def _clear(self) -> None:
        """Also after a cancellation or failure; then the rest of the log is dropped."""
        if self._pumping is not None:
            await cancel_all(self._pumping)
        with suppress(EngineError):  # `reap` removes it after a restart
            await self._remove()
        if self._bridge is not None:
            await self._bridge.close()
        if self._work is not None:
            await asyncio.to_thread(self._work.remove)
        if self._disk is not None:
            await self._settings.disks.give_back(self._disk)
