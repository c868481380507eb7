"""The walls of an attempt and all that stands within them, whatever its command is."""

from collections.abc import Sequence

from potluck.provider.kinds.types import Job
from potluck.provider.sandbox.driver import CHECKPOINT, OUTPUT, WORK, Confinement, Mount


def confine(job: Job, command: Sequence[str], image: str | None = None) -> Confinement:
    grant, exposed = job.grant, job.exposed
    return Confinement(
        name=grant.attempt_id,
        command=tuple(command),
        memory_bytes=grant.requirements.memory_bytes,
        disk_bytes=grant.requirements.disk_bytes,
        processes=grant.limits.processes,
        cores=grant.requirements.cores,
        seconds=grant.limits.run_seconds,
        log_bytes=grant.limits.log_bytes,
        environment={
            **grant.spec.environment,
            **grant.secrets,
            **exposed.environment,
            "POTLUCK_TASK_ID": grant.task_id,
            "POTLUCK_ATTEMPT_ID": grant.attempt_id,
            "POTLUCK_OUTPUT": OUTPUT,
            # Of an array, an item that has ended is one.
            **({} if grant.items_total is not None else {"POTLUCK_CHECKPOINT": CHECKPOINT}),
        },
        mounts=(*job.environment.mounts, *exposed.mounts, *_files(job)),
        device_nodes=exposed.device_nodes,
        image=image,
        image_seconds=grant.limits.prepare_seconds,
    )


def _files(job: Job) -> list[Mount]:
    """Where the task works, and not to be written to: they are the cache's own."""
    return [
        Mount(job.inputs.path_of(file.blob), f"{WORK}/{file.path}") for file in job.grant.spec.files
    ]
