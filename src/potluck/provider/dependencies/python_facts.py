"""Version and platform of a Python inside the sandbox, which is not the one we run on."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.model.task import EndReason
from potluck.provider.dependencies.outcome import PrepareFailed
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.driver import PYTHON, Driver, Mount, make_trial

_PROGRAM = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(),
    "platform": " ".join([sys.implementation.cache_tag, sysconfig.get_platform(),
                          *platform.libc_ver()]),
    "paths": [sys.executable, os.path.realpath(sys.executable)],
}))
"""

_SHOWN_CHARACTERS = 300


class PythonFacts(Struct, frozen=True):
    version: str
    platform: str  # everything else that decides which wheels are compatible
    paths: frozenset[str]  # inside the sandbox


async def find_python_facts(
    driver: Driver, name: str, interpreter: str = PYTHON, mounts: tuple[Mount, ...] = ()
) -> PythonFacts:
    """Runs it in the sandbox; raises PrepareFailed if that fails."""
    stdout, stderr = bytearray(), bytearray()

    async def collect(stream: str, data: bytes) -> None:
        (stdout if stream == "stdout" else stderr).extend(data)

    trial = make_trial(f"{name}-python", "-c", _PROGRAM)
    command = (interpreter, *trial.command[1:])
    ended = await driver.run(replace(trial, command=command, mounts=mounts), collect)
    if ended.reason is not EndReason.COMPLETED:
        words = one_line(stderr.decode("utf-8", "replace"))[-_SHOWN_CHARACTERS:]
        detail = f"The sandbox's Python does not work: {ended.detail} {words}".rstrip()
        raise PrepareFailed(EndReason.SANDBOX_FAILED, detail)
    return msgspec.json.decode(stdout, type=PythonFacts)
