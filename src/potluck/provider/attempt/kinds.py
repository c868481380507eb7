"""An attempt that is ready to run; for each kind of task its dependencies and confinement."""

import asyncio
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.blob import is_path
from potluck.model.error import InvalidInput
from potluck.model.network.patterns import RAW
from potluck.model.script import ScriptMetadata, read_metadata, suits_python
from potluck.model.task import EndReason
from potluck.model.task_spec import (
    CommandSpec,
    ContainerSpec,
    FunctionSpec,
    ScriptSpec,
    TaskSpec,
    stdin_of,
)
from potluck.provider.attempt.item_feed import ItemFeed
from potluck.provider.attempt.mask import MaskedLog
from potluck.provider.dependencies.outcome import Environment, PrepareFailed
from potluck.provider.event import CodeStarted, Event
from potluck.provider.expose.exposed import Exposed
from potluck.provider.files.blob_transfer import AttemptTransfers
from potluck.provider.sandbox.driver import (
    CHECKPOINT,
    OUTPUT,
    WORK,
    Confinement,
    Mount,
    StopRequest,
)
from potluck.wire.provider import Grant

if TYPE_CHECKING:  # work_directory needs PreparedAttempt
    from potluck.provider.files.work_directory import InputFiles


Tell = Callable[[Event], None]


class PreparedAttempt(Struct, frozen=True):
    """One attempt with its dependencies, devices and input files."""

    grant: Grant
    environment: Environment
    exposed: Exposed
    inputs: "InputFiles"
    log: MaskedLog
    tell: Tell
    recall: StopRequest
    freight: AttemptTransfers
    is_of_other: bool = False  # whether it is a task of another account than the node's owner
    feed: ItemFeed | None = None  # of a call stream: where its items come from
    turn: asyncio.Event | None = None  # its code starts after this; None: immediately
    network: Path | None = None  # the socket of its proxy or raw service, if it has network

    async def its_turn(self) -> None:
        if self.turn is not None:
            await self.turn.wait()

    async def started(self) -> None:
        """Reports that the consumer's code runs."""
        self.tell(CodeStarted(self.grant.attempt_id))


class RunPlan(Struct, frozen=True):
    """A confined command, and files to write into its work directory before it starts."""

    confinement: Confinement
    puts: dict[str, bytes] = {}


def confine(job: PreparedAttempt, command: Sequence[str], image: str | None = None) -> Confinement:
    grant, exposed = job.grant, job.exposed
    is_raw = RAW in grant.requirements.network
    return Confinement(
        name=grant.attempt_id,
        command=tuple(command),
        memory_bytes=grant.requirements.memory_bytes,
        disk_bytes=grant.requirements.disk_bytes,
        processes=grant.limits.processes,
        cores=grant.requirements.cores,
        seconds=grant.limits.run_seconds,
        environment={
            **grant.spec.environment,
            **grant.secrets,
            **exposed.environment,
            "POTLUCK_TASK_ID": grant.task_id,
            "POTLUCK_ATTEMPT_ID": grant.attempt_id,
            "POTLUCK_OUTPUT": OUTPUT,
            # An array needs none: its ended items are its progress.
            **({} if grant.items_total is not None else {"POTLUCK_CHECKPOINT": CHECKPOINT}),
        },
        mounts=(*job.environment.mounts, *exposed.mounts, *_files(job), *_volumes(job)),
        device_nodes=exposed.device_nodes,
        stdin=_stdin(job),
        image=image,
        image_seconds=grant.limits.prepare_seconds,
        is_of_other=job.is_of_other,
        proxy=None if is_raw else job.network,
        raw_network=job.network if is_raw else None,
    )


def _files(job: PreparedAttempt) -> list[Mount]:
    """Mounted into the work directory, read-only: they belong to the cache."""
    return [
        Mount(job.inputs.path_of(file.blob), f"{WORK}/{file.path}") for file in job.grant.spec.files
    ]


def _volumes(job: PreparedAttempt) -> list[Mount]:
    """Read-only: the trees are shared by all tasks that mount them."""
    return [Mount(tree, path) for path, tree in job.inputs.volumes.items()]


def _stdin(job: PreparedAttempt) -> Path | None:
    blob = stdin_of(job.grant.spec)
    return None if blob is None else job.inputs.path_of(blob)


def dependencies_of(spec: TaskSpec, required: str | None) -> ScriptMetadata:
    """With the Python that the task requires, if the node's own does not suit."""
    match spec:
        case ScriptSpec():
            metadata = needs_of(spec)
        case FunctionSpec():
            metadata = ScriptMetadata(dependencies=spec.dependencies)
        case CommandSpec() | ContainerSpec():
            return ScriptMetadata()
        case _:
            assert_never(spec)
    needed = required or metadata.requires_python  # the first includes the second
    has_python = needed is None or suits_python(needed, platform.python_version())
    return replace(metadata, requires_python=None if has_python else needed)


def plan_of(job: PreparedAttempt, spec: ScriptSpec | CommandSpec | ContainerSpec) -> RunPlan:
    match spec:
        case ScriptSpec():
            return plan_script(job, spec)
        case CommandSpec():
            # It runs a program of the node, which may need what is installed there.
            return RunPlan(replace(confine(job, spec.command), shows_packages=True))
        case ContainerSpec():  # an empty command is the image's own
            return RunPlan(confine(job, spec.command, spec.image))
        case _:
            assert_never(spec)


def needs_of(spec: ScriptSpec) -> ScriptMetadata:
    try:
        return read_metadata(spec.source)
    except InvalidInput as error:
        raise PrepareFailed(EndReason.PREPARE_FAILED, f"{error.detail} {error.hint}") from error


def plan_script(job: PreparedAttempt, spec: ScriptSpec) -> RunPlan:
    """The script is written after the folder is unpacked, which often contains it, too."""
    filename = _filename(spec)
    # Python would read a name that starts with a dash as an option.
    script = f"./{filename}" if filename.startswith("-") else filename
    command = (job.environment.interpreter, "-u", script, *spec.arguments)
    return RunPlan(confine(job, command), {filename: spec.source.encode()})


def _filename(spec: ScriptSpec) -> str:
    """The path in its folder, if it has one; else the last part of any system's path."""
    if spec.folder is not None and is_path(spec.filename):
        return spec.filename
    name = spec.filename.replace("\\", "/").rpartition("/")[2]
    return name if is_path(name) else "script.py"
