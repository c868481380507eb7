"""The container driver, over the Docker API.

Containers outlive the process that created them. So each is labelled with its node, its init
process ends everything when the provider is gone, and `reap` removes the container, its directory
and the mounts there when the provider starts again.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from potluck.model.error import SandboxUnavailable
from potluck.model.node import DISK_IMAGE, SandboxReport
from potluck.model.task import MIB, EndReason
from potluck.model.terms import TaskKind
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.bubblewrap.bwrap import sandbox_name
from potluck.provider.sandbox.bubblewrap.root_filesystem import Python, find_pythons
from potluck.provider.sandbox.docker.container_config import (
    MASKED_PATHS,
    ContainerDefaults,
    RuntimeOverhead,
)
from potluck.provider.sandbox.docker.engine import Engine, EngineError, EngineFacts, Image
from potluck.provider.sandbox.docker.root import LABEL, build_own_image, init_on_own_image
from potluck.provider.sandbox.docker.run import ContainerRun, ContainerSettings, ContainerUser
from potluck.provider.sandbox.docker.seccomp_profile import make_profile
from potluck.provider.sandbox.docker.work_directory import (
    CONTAINER_DISKS,
    DIRECTORY,
    remove_run_directories,
)
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    Confinement,
    InputFailed,
    Output,
    RunHooks,
    RunOutcome,
    make_trial,
    refuse_raw_network,
)
from potluck.provider.sandbox.identity import new_uid
from potluck.provider.sandbox.seccomp import this_machine
from potluck.provider.sandbox.work_disk import WorkDisks

RUNSC = "runsc"
_NODE_LABEL = "potluck.node"
# gVisor's kernel runs in the container's control group, so it counts for each task.
_GVISOR_OVERHEAD = RuntimeOverhead(memory_bytes=64 * MIB, processes=512)
# Prints how a run sees its own confinement, in one line.
_TRIAL = """
import json, os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
space = os.statvfs("/work")
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": int(status.get("CapEff", "1").strip(), 16),
    "filter": status.get("Seccomp", "0").strip(),
    "interfaces": sorted(name for _, name in socket.if_nameindex()),
    "work_bytes": space.f_blocks * space.f_frsize,
}))
"""


class DockerDriver:
    """Runs commands in containers of one engine, with its default runtime or with runsc."""

    encloses_processes = True

    def __init__(
        self,
        state_directory: Path,
        node_name: str,
        socket: Path,
        runtime: str | None = None,
        may_pull: Callable[[], bool] = lambda: False,
        python_prefix: Path = Path(sys.base_prefix),
        may_others_use_disk: Callable[[], bool] = lambda: False,
    ) -> None:
        self._disks = WorkDisks(
            state_directory / CONTAINER_DISKS, may_others_use_disk, has_tmpfs=os.geteuid() == 0
        )
        self._name = sandbox_name(state_directory, node_name)
        self._directory = state_directory / DIRECTORY
        self._engine = Engine(socket)
        self._runtime = runtime
        self._may_pull = may_pull
        self._pythons = find_pythons(python_prefix)
        self._settings: ContainerSettings | None = None

    async def probe(self) -> SandboxReport:
        try:
            facts = await self._engine.facts()
            if self._runtime is not None and self._runtime not in facts.runtimes:
                raise _no_runtime(facts)
            image, archive = build_own_image()
            if await self._engine.image(image) is None:
                await self._engine.import_image(archive, image, f"{LABEL}=1")
        except EngineError as error:
            raise _engine_unusable(error) from error
        await self._disks.probe()
        failures = []
        for python, user in product(self._pythons, _users(facts)):
            settings = self._make_settings(facts, python, image, user)
            try:
                report = await self._try(settings, facts)
            except _TrialFailed as failure:
                failures.append(str(failure))
                continue
            self._settings = settings
            return report
        raise SandboxUnavailable(
            f"Containers do not work here: {one_line(failures[0])}",
            f"Try `{facts.name.lower()} run --rm --network none --read-only IMAGE true`;"
            " it should succeed.",
        )

    async def run(
        self, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> RunOutcome:
        assert self._settings is not None, "probe comes first"
        refuse_raw_network(confinement)
        run = ContainerRun(self._settings, confinement, output, hooks)
        try:
            return await run.to_its_end()
        except EngineError as error:
            raise _engine_unusable(error) from error

    async def reap(self) -> None:
        try:
            for container in await self._engine.labelled(f"{_NODE_LABEL}={self._name}"):
                await self._engine.remove(container)
        except EngineError as error:
            raise _engine_unusable(error) from error
        await asyncio.to_thread(remove_run_directories, self._directory)
        await self._disks.reap()

    def held_bytes(self) -> int:
        return self._disks.held_bytes

    def _make_settings(
        self, facts: EngineFacts, python: Python, image: str, user: "_User"
    ) -> ContainerSettings:
        defaults = ContainerDefaults(
            label=f"{_NODE_LABEL}={self._name}",
            security=("no-new-privileges", f"seccomp={self._filter(facts)}", *_masks(facts)),
            runtime=self._runtime,
            user_namespace=user.namespace,
            overhead=_GVISOR_OVERHEAD if self._runtime == RUNSC else RuntimeOverhead(),
        )
        return ContainerSettings(
            engine=self._engine,
            name=self._name,
            directory=self._directory,
            defaults=defaults,
            python=python,
            init=init_on_own_image(python),
            own_image=image,
            disks=self._disks,
            new_user=user.make,
            find_image=self._find_image,
        )

    def _filter(self, facts: EngineFacts) -> str:
        """The option's value: Docker expects the profile itself, Podman the path of a file."""
        text = json.dumps(make_profile(this_machine(), is_for_gvisor=self._runtime == RUNSC))
        if facts.name != "Podman":
            return text
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory.parent / "seccomp.json"
        path.write_text(text)
        return str(path)

    async def _find_image(self, name: str) -> Image:
        image = await self._engine.image(name)
        if image is not None:
            return image
        if not self._may_pull():
            raise InputFailed(
                f"The node does not have the image {name} and may not pull images. Its owner can"
                " load it into the engine (`docker load`, `podman load`), or allow pulling"
                " (`potluck provider set pull_images=yes`).",
                EndReason.DECLINED,
            )
        try:
            await self._engine.pull(name)
        except EngineError as error:
            detail = f"the image {name} cannot be pulled: {one_line(str(error))}"
            raise InputFailed(detail) from error
        image = await self._engine.image(name)
        if image is None:
            raise InputFailed(f"the engine does not have the image {name} after pulling it")
        return image

    async def _try(self, settings: ContainerSettings, facts: EngineFacts) -> SandboxReport:
        """Runs the interpreter inside, and compares what it sees with the requested confinement."""
        output = bytearray()
        mechanisms: dict[str, str] = {}
        sizes: list[int] = []

        async def collect(_: str, data: bytes) -> None:
            output.extend(data)

        trial = make_trial("probe", "-c", f"{settings.python.trial}\n{_TRIAL}")

        async def find_mechanisms() -> None:
            limits = {
                "memory": run.config.memory_bytes,
                "pids": run.config.processes,
                "cpu": run.config.quota_microseconds,
            }
            for controller, limit in limits.items():
                mechanism = run.group and run.group.mechanism(controller, limit)
                mechanisms[controller] = mechanism or "none"
            sizes.append(run.config.work.size_bytes)

        run = ContainerRun(settings, trial, collect, RunHooks(find_mechanisms))
        ended = await run.to_its_end()
        text = output.decode(errors="replace").strip()
        if ended.reason is not EndReason.COMPLETED:
            raise _TrialFailed("; ".join(filter(None, (ended.detail, text))))
        return self._report(facts, mechanisms, json.loads(text.splitlines()[-1]), sizes[0])

    def _report(
        self,
        facts: EngineFacts,
        mechanisms: dict[str, str],
        inside: dict[str, object],
        work_bytes: int,
    ) -> SandboxReport:
        if inside["capabilities"] or inside["interfaces"] != ["lo"]:
            raise _TrialFailed(f"the engine does not confine containers as requested: {inside}")
        if self._disks.mechanism == DISK_IMAGE and inside["work_bytes"] != work_bytes:
            raise _TrialFailed("the engine does not see the mounts of this machine")
        is_gvisor = self._runtime == RUNSC
        own = "own uid" if os.geteuid() == 0 else "the provider's user"
        return SandboxReport(
            driver=RUNSC if is_gvisor else "docker",
            memory=mechanisms["memory"],
            processes=mechanisms["pids"],
            cpu=mechanisms["cpu"],
            disk=self._disks.mechanism,
            network="namespaces",
            syscalls=_syscall_mechanism(inside, is_gvisor),
            user="user namespace" if facts.is_rootless else own,
            kinds=tuple(TaskKind),
            takes_stdin=True,
            notes=(
                f"containers by {facts.name} {facts.version}",
                *_advice(inside, is_gvisor),
                *_limits_advice(facts, mechanisms),
                *self._disks.notes,
            ),
        )


class _TrialFailed(Exception):
    """A trial run did not confirm the confinement; the message says why."""


def _masks(facts: EngineFacts) -> tuple[str, ...]:
    """Podman ignores the paths of the container's configuration; it has an option for them."""
    return (f"mask={':'.join(MASKED_PATHS)}",) if facts.name == "Podman" else ()


def _syscall_mechanism(inside: dict[str, object], is_gvisor: bool) -> str:
    has_filter = inside["filter"] == "2"
    if is_gvisor:
        return "gVisor and seccomp" if has_filter else "gVisor"
    return "seccomp" if has_filter else "none"


def _advice(inside: dict[str, object], is_gvisor: bool) -> tuple[str, ...]:
    if not is_gvisor or inside["filter"] == "2":
        return ()
    return ("runsc filters no system calls inside; set its runtime option --oci-seccomp",)


def _limits_advice(facts: EngineFacts, mechanisms: dict[str, str]) -> tuple[str, ...]:
    if not facts.is_rootless or "none" not in mechanisms.values():
        return ()
    return (
        f"a rootless {facts.name} limits memory, processes and cores only with control groups of"
        " version 2 that its user may use",
    )


def _engine_unusable(error: EngineError) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"The container engine cannot be used: {one_line(str(error))}",
        "Start it, and give this user access to its socket.",
    )


def _no_runtime(facts: EngineFacts) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"{facts.name} has no runtime runsc.",
        "Install gVisor and add it to the engine's configuration (`runsc install` for Docker).",
    )


class _User(NamedTuple):
    """Makes the user of each run, in this user namespace of Podman."""

    make: Callable[[], ContainerUser]
    namespace: str = ""


def _users(facts: EngineFacts) -> tuple[_User, ...]:
    """As root a new user for each run; else our own, so that we can remove the run's files.

    A rootless engine has a user namespace. Podman keeps our uid in it, unless this user has no
    range of further uids (`/etc/subuid`): then, as with Docker, root inside is our user outside.
    """
    if os.geteuid() == 0:
        return (_User(_new_user),)
    own = partial(ContainerUser, os.geteuid(), os.getegid(), owns_files_of_host=False)
    root_inside = partial(ContainerUser, 0, 0, owns_files_of_host=False)
    if not facts.is_rootless:
        return (_User(own),)
    if facts.name == "Docker":
        return (_User(root_inside),)
    return (_User(own, "keep-id"), _User(root_inside))


def _new_user() -> ContainerUser:
    uid = new_uid()
    return ContainerUser(uid, uid, owns_files_of_host=True)
