"""How a command comes to its variables and begins.

A loader obeys some variables, and the steps before the command may be root. So an interpreter of
ours sets them, as the command's user (begin.py), which takes ten milliseconds to start. A script
with no variables of its own begins without it: ours are set by bwrap, from its options in a memory
file, and nobody on the way makes anything of them.
"""

from pathlib import Path

from msgspec import Struct

from potluck.provider.sandbox import exec_env
from potluck.provider.sandbox.bubblewrap.root_filesystem import VARIABLES, Python
from potluck.provider.sandbox.driver import PYTHON, Confinement

_ENV = "/usr/bin/env"
_BEGIN = "/etc/potluck-begin.py"
_VARIABLES = "/etc/potluck-variables"
# For the task and for the libraries of vendors. To the loader, the C library and setpriv they are
# nothing, whatever they say.
_UNHEEDED = {
    "POTLUCK_TASK_ID",
    "POTLUCK_ATTEMPT_ID",
    "POTLUCK_OUTPUT",
    "POTLUCK_CHECKPOINT",
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
}


class Beginning(Struct, frozen=True):
    """What bwrap executes, its options for that, and the files that are read on the way."""

    command: list[str]
    options: list[str] = []
    files: dict[str, bytes] = {}


def beginning_of(python: Python, confinement: Confinement) -> Beginning:
    first, *rest = confinement.command
    program = python.path if first == PYTHON else first
    variables = {**VARIABLES, **python.environment, **confinement.environment}
    # A program that is not there is told by begin.py, in a sentence; the interpreter is there.
    if first == PYTHON and _are_unheeded(variables):
        options = [word for pair in variables.items() for word in ("--setenv", *pair)]
        # bwrap adds one of its own.
        return Beginning([_ENV, "-u", "PWD", program, *rest], options)
    needed = [f"{name}={value}" for name, value in python.environment.items()]
    start = [_ENV, "-i", *needed, python.path, "-I", "-S"]
    files = {_BEGIN: Path(exec_env.__file__).read_bytes(), _VARIABLES: _told(variables)}
    return Beginning([*start, _BEGIN, _VARIABLES, program, *rest], files=files)


def _are_unheeded(variables: dict[str, str]) -> bool:
    """Those that every run has are heeded, so they must say what we say."""
    others = {name: value for name, value in variables.items() if name not in _UNHEEDED}
    return others == VARIABLES


def _told(variables: dict[str, str]) -> bytes:
    lines = [f"{name}={value}\0" for name, value in variables.items()]
    return "".join(lines).encode("utf-8", "surrogateescape")
