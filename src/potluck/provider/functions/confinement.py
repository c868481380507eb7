"""The sandbox of an interpreter: that of its first attempt, and what serves functions in it."""

import sys
from pathlib import Path

from msgspec.structs import replace

from potluck.provider.attempt.kinds import confine
from potluck.provider.attempt.types import PreparedAttempt
from potluck.provider.functions import interpreter_main
from potluck.provider.functions.interpreter_key import ATTEMPT_VARIABLES
from potluck.provider.sandbox.driver import CHECKPOINT, Confinement, Mount
from potluck.wire import plain_values

_PLACE = "/opt/potluck"
# Each call has its own clock, and whoever lends interpreters ends them.
_SECONDS = 366 * 86_400.0
# The thread that sends what waits is not the function's.
_OWN_PROCESSES = 1


def confine_function(job: PreparedAttempt) -> Confinement:
    ours = _ours()
    command = (job.environment.interpreter, "-u", *(mount.target for mount in ours))
    plain = confine(job, command)
    given = {
        name: text for name, text in plain.environment.items() if name not in ATTEMPT_VARIABLES
    }
    # Calls and items of one function use the same interpreter, so it is there for both.
    variables = {**given, "POTLUCK_CHECKPOINT": CHECKPOINT}
    return replace(
        plain,
        environment=variables,
        mounts=(*plain.mounts, *ours),
        seconds=_SECONDS,
        log_bytes=sys.maxsize,
        own_processes=_OWN_PROCESSES,
    )


def _ours() -> tuple[Mount, ...]:
    """What is shown of us inside, which is source that anybody may read."""
    import cloudpickle

    folders = (plain_values.__file__, cloudpickle.__file__)
    assert all(folders)
    return (
        Mount(Path(interpreter_main.__file__), f"{_PLACE}/serve.py"),
        *(Mount(Path(file).parent, f"{_PLACE}/{Path(file).parent.name}") for file in folders),
    )
