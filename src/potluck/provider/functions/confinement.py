"""The sandbox of an interpreter: that of its first attempt, plus `interpreter_main`."""

from pathlib import Path

from msgspec.structs import replace

from potluck.provider.attempt.kinds import PreparedAttempt, confine
from potluck.provider.functions import interpreter_main
from potluck.provider.functions.interpreter import ATTEMPT_VARIABLES
from potluck.provider.sandbox.driver import CHECKPOINT, Confinement, Mount
from potluck.wire import plain_values

_DIRECTORY = "/opt/potluck"
# Effectively unlimited: each call has its own time limit, and the pool ends interpreters.
_SECONDS = 366 * 86_400.0
# The thread of `interpreter_main` that flushes results.
_OWN_PROCESSES = 1


def confine_function(job: PreparedAttempt) -> Confinement:
    own_mounts = _own_mounts()
    command = (job.environment.interpreter, "-u", *(mount.target for mount in own_mounts))
    plain = confine(job, command)
    allowed = {
        name: text for name, text in plain.environment.items() if name not in ATTEMPT_VARIABLES
    }
    # Set for items too: calls and items of a function share an interpreter.
    variables = {**allowed, "POTLUCK_CHECKPOINT": CHECKPOINT}
    return replace(
        plain,
        environment=variables,
        mounts=(*plain.mounts, *own_mounts),
        seconds=_SECONDS,
        own_processes=_OWN_PROCESSES,
    )


def _own_mounts() -> tuple[Mount, ...]:
    """Our source files inside; they are public."""
    import cloudpickle

    folders = (plain_values.__file__, cloudpickle.__file__)
    assert all(folders)
    return (
        Mount(Path(interpreter_main.__file__), f"{_DIRECTORY}/serve.py"),
        *(Mount(Path(file).parent, f"{_DIRECTORY}/{Path(file).parent.name}") for file in folders),
    )
