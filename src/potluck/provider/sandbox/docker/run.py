"""One run in a container, from its making to the last trace of it."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from potluck.local.shielded import undisturbed
from potluck.model.error import PotluckError
from potluck.model.task import EndReason
from potluck.provider.sandbox.bubblewrap.root_filesystem import VARIABLES, Python
from potluck.provider.sandbox.docker import nvidia
from potluck.provider.sandbox.docker.attach import attach
from potluck.provider.sandbox.docker.bridge import Bridge
from potluck.provider.sandbox.docker.container_cgroup import ContainerGroup, find_container_group
from potluck.provider.sandbox.docker.container_config import ContainerConfig, ContainerDefaults
from potluck.provider.sandbox.docker.engine import (
    NAME_TAKEN,
    Engine,
    EngineError,
    Image,
)
from potluck.provider.sandbox.docker.root import InitCommand, init_on_any_image
from potluck.provider.sandbox.docker.work_directory import Work
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    PYTHON,
    WORK,
    Companion,
    Confinement,
    Errand,
    InputFailed,
    Output,
    Recalled,
    ResourceUse,
    RunOutcome,
    Started,
    StopRequest,
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
    log_limit_outcome,
    supervise,
)
from potluck.provider.sandbox.output_pump import OutputPump

# Where the work directory has no size of its own, all of it is looked through each time.
_SLOW_WATCH_SECONDS = 0.5
_READY_SECONDS = 120.0  # for the first process, on a machine that is busy
_NOTHING_SPENT = ResourceUse(0.0, 0)


class ContainerUser(Struct, frozen=True):
    """Who a run is on this machine."""

    user: int
    group: int
    owns_files_of_host: bool  # whether what is mounted writable must be handed to him


class ContainerSettings(Struct, frozen=True):
    """Of containers what Premises are of bubblewrap: found out once, for all runs."""

    engine: Engine
    name: str
    directory: Path
    hull: ContainerDefaults
    python: Python
    footing: InitCommand
    own_image: str
    person: Callable[[], ContainerUser]
    find_image: Callable[[str], Awaitable[Image]]  # raises InputFailed


class ContainerRun:
    """Used once: `to_its_end`."""

    def __init__(
        self,
        yard: ContainerSettings,
        confinement: Confinement,
        output: Output,
        companion: Companion | None = None,
        recall: StopRequest | None = None,
        errand: Errand = NO_ERRAND,
    ) -> None:
        self._yard = yard
        self._confinement = confinement
        self._companion = companion
        self._recall = recall or StopRequest()
        self._errand = errand
        self._log = OutputPump(output, confinement.log_bytes)
        self._short_name = re.sub(r"[^A-Za-z0-9_.-]", "_", confinement.name)
        self._name = f"{yard.name}-{self._short_name}"
        self._casing: ContainerConfig | None = None
        self._work: Work | None = None
        self._workplace: WorkDirectory | None = None  # once the code has been let go
        self._container: str | None = None
        self._bridge: Bridge | None = None
        self._walls: list[LimitCheck] = []
        self._late: RunOutcome | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._run_seconds = 0.0
        self._spent = _NOTHING_SPENT
        self.group: ContainerGroup | None = None

    @property
    def casing(self) -> ContainerConfig:
        assert self._casing is not None
        return self._casing

    async def to_its_end(self, started: Started) -> RunOutcome:
        try:
            touched = self._recall.said or await self._set_up() or await self._live(started)
            await undisturbed(self._remove())
            if self._pumping is not None:
                await self._pumping
            outcome = self._outcome(touched)
            if self._workplace is not None:
                await self._errand.after(self._workplace, outcome.reason)
            return self._measured(outcome)
        finally:
            await undisturbed(self._clear())

    async def _set_up(self) -> RunOutcome | None:
        """Short of letting the command begin; an image may take long to come, and whoever calls the
        run back does not wait for it."""
        try:
            return await self._recall.unless(self._prepare())
        except Recalled as recalled:
            return recalled.touched

    async def _prepare(self) -> RunOutcome | None:
        try:
            image = await self._find_image()
            self._casing = self._encase(image)
            await undisturbed(self._create())
            if self._bridge is None or not await self._is_ready(self._bridge):
                said = self._bridge.last_words if self._bridge else ""
                return sandbox_failed(said or "the container ended without a word")
            self.group = find_container_group(await self._yard.engine.pid(self._container or ""))
            work = self.casing.work
            person = self._casing.user if self._hands_over else None
            workplace = WorkDirectory(work.descriptor, person)
            if (failed := await stage_inputs(self._errand, workplace, self._recall)) is not None:
                return failed
            self._workplace = workplace
        except InputFailed as failure:
            return failure.touched
        except (EngineError, PotluckError, OSError) as failure:
            return sandbox_failed(f"the sandbox could not be set up: {failure}")
        return None

    async def _is_ready(self, bridge: Bridge) -> bool:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                return await bridge.ready()
        except TimeoutError:
            raise EngineError(f"no word from it within {_READY_SECONDS:g} s") from None

    async def _find_image(self) -> Image:
        name = self._confinement.image
        if name is None:
            return Image(self._yard.own_image)
        if nvidia.wants_cards(self._confinement.device_nodes):
            nvidia.check_toolkit(await nvidia.toolkit_version())
        image = await self._in_time(name, self._yard.find_image(name))
        if not self._words(image):
            raise InputFailed(f"the image {name} has no command of its own, and the task says none")
        return image

    async def _in_time(self, name: str, finding: Awaitable[Image]) -> Image:
        """Whoever waits for it holds devices meanwhile."""
        seconds = self._confinement.image_seconds
        try:
            async with asyncio.timeout(seconds):
                return await finding
        except TimeoutError:
            sentence = f"fetching the image {name} took longer than {seconds:g} s"
            raise InputFailed(sentence, EndReason.PREPARE_TIME_LIMIT) from None

    def _encase(self, image: Image) -> ContainerConfig:
        confinement, yard = self._confinement, self._yard
        person = yard.person()
        self._hands_over = person.owns_files_of_host
        self._work = Work(yard.directory / self._short_name, confinement.disk_bytes)
        self._work.put(confinement.files)
        if self._hands_over:
            self._work.hand_over(person.user, [m.source for m in confinement.mounts if m.writable])
        footing = yard.footing if confinement.image is None else init_on_any_image()
        parts = (confinement, yard.hull, footing, image, person.user, person.group, self._work)
        return ContainerConfig(*parts)

    async def _create(self) -> None:
        """Not to be disturbed: what the engine has begun to make must be known to be removed."""
        engine = self._yard.engine
        told = self.casing.told()
        try:
            self._container = await engine.create(self._name, told)
        except EngineError as error:
            if error.status != NAME_TAKEN:
                raise
            # Names are unique among what runs, so it is an earlier life's.
            await engine.remove(self._name)
            self._container = await engine.create(self._name, told)
        attachment = await attach(engine.socket, self._container)
        stdin = self._companion.stdin if self._companion else None
        self._bridge = Bridge(attachment, stdin)
        await engine.start(self._container)

    async def _live(self, started: Started) -> RunOutcome | None:
        assert self._bridge is not None and self._workplace is not None
        began = time.monotonic()
        self._walls = self._limits(self._bridge)
        self._bridge.begin(self._command(), self._variables())
        await started()
        self._pumping = asyncio.create_task(
            self._log.pump(self._bridge.stdout, self._bridge.stderr)
        )
        walls = [check_time(self._confinement.seconds), *self._walls]
        guests = RunHandles(
            *(self._recall, self._bridge.terminate, self._ask_spent, self._workplace),
            *(self._errand, self._companion),
        )
        pace = WATCH_SECONDS if self.casing.work.is_file_system else _SLOW_WATCH_SECONDS
        ended = self._bridge.ended()
        touched = await supervise(ended, walls, self._log, self._pumping, guests, pace)
        # What the kernel has counted is forgotten with the container, so it is asked now.
        self._run_seconds = time.monotonic() - began
        self._ask_spent()
        self._late = first_exceeded(self._walls)
        return touched

    def _limits(self, bridge: Bridge) -> list[LimitCheck]:
        limit, work = self._confinement, self.casing.work
        walls = [check_disk(work.is_full, limit.disk_bytes)]
        footprint = self._yard.hull.footprint
        if footprint.processes:
            bridge.count(self.casing.processes - footprint.processes)
            walls.append(check_processes(lambda: bridge.is_crowded, limit.processes))
        if self.group is None:
            return walls
        group, most_bytes = self.group.counts, limit.memory_bytes + footprint.memory_bytes

        def is_over() -> bool:
            self._ask_spent()
            return group.memory_bytes().beyond(work.used_bytes()) > most_bytes

        return [
            *walls,
            check_processes(group.refused_a_process, limit.processes),
            check_memory(group.was_out_of_memory, limit.memory_bytes),
            check_memory(is_over, limit.memory_bytes),
        ]

    def _ask_spent(self) -> ResourceUse:
        """Keeps what was seen: a container that ends by itself takes the counts along."""
        if self.group is not None:
            group = self.group.counts
            self._spent = ResourceUse(
                max(self._spent.cpu_seconds, group.cpu_seconds() or 0.0),
                max(self._spent.memory_peak_bytes, group.memory_peak_bytes() or 0),
            )
        return self._spent

    def _command(self) -> list[str]:
        if self._confinement.image is None:
            program, *rest = self._confinement.command
            return [self._yard.python.path if program == PYTHON else program, *rest]
        return self._words(self.casing.image)

    def _words(self, image: Image) -> list[str]:
        """Of what runs in somebody's image, which may bring a command or a part of one."""
        config = image.config
        entry = (config and config.entrypoint) or []
        command = list(self._confinement.command) or (config and config.cmd) or []
        return [*entry, *command]

    def _variables(self) -> dict[str, str]:
        asked = self._confinement.environment
        if self._confinement.image is None:
            return {**VARIABLES, **self._yard.python.environment, **asked}
        config = self.casing.image.config
        brought = dict(each.partition("=")[::2] for each in (config and config.env) or ())
        return {**brought, "HOME": WORK, "TMPDIR": VARIABLES["TMPDIR"], **asked}

    def _outcome(self, touched: RunOutcome | None) -> RunOutcome:
        if touched is not None:
            return touched
        own = self._own_end()
        late = log_limit_outcome(self._log) if self._log.is_cut else self._late
        return replace(late, exit_code=own.exit_code) if late else own

    def _own_end(self) -> RunOutcome:
        status = self._bridge.wait_status if self._bridge else None
        if status is None:
            said = self._bridge.last_words if self._bridge else ""
            why = f": {said}" if said else ""
            detail = f"the container ended before its command{why}"
            return RunOutcome(EndReason.SIGNAL, detail)
        return outcome_of_shell_code(0, status)

    def _measured(self, outcome: RunOutcome) -> RunOutcome:
        return replace(
            outcome,
            run_seconds=self._run_seconds,
            cpu_seconds=self._spent.cpu_seconds,
            memory_peak_bytes=self._spent.memory_peak_bytes,
            log_bytes=self._log.total_bytes,
        )

    async def _remove(self) -> None:
        """What is written until its end is still heard, unless nobody listens any more."""
        if self._bridge is not None and (self._pumping is None or self._pumping.done()):
            await self._bridge.hang_up()
        if self._container is not None:
            container, self._container = self._container, None
            await self._yard.engine.remove(container)

    async def _clear(self) -> None:
        """Also after a cancellation or a failure half-way; then the rest of the log is dropped."""
        if self._pumping is not None:
            await cancel_all(self._pumping)
        with suppress(EngineError):  # the next life looks for what is left
            await self._remove()
        if self._bridge is not None:
            await self._bridge.close()
        if self._work is not None:
            await asyncio.to_thread(self._work.remove)
