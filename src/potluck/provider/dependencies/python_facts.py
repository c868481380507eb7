"""Version and platform of the sandbox's own Python, which is not the one we run on."""

import msgspec
from msgspec import Struct
from packaging.specifiers import SpecifierSet

from potluck.model.task import EndReason
from potluck.provider.dependencies.outcome import PrepareFailed, prepare_failed
from potluck.provider.sandbox.driver import Driver, make_trial

_PROGRAM = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(),
    "platform": " ".join([sys.implementation.cache_tag, sysconfig.get_platform(),
                          *platform.libc_ver()]),
    "paths": [sys.executable, os.path.realpath(sys.executable)],
}))
"""


class PythonFacts(Struct, frozen=True):
    version: str
    platform: str  # everything else that decides which wheels are compatible
    paths: frozenset[str]  # inside the sandbox


async def find_python_facts(driver: Driver, name: str) -> PythonFacts:
    """Runs it in the sandbox; raises PrepareFailed if that fails."""
    stdout = bytearray()

    async def collect(stream: str, data: bytes) -> None:
        if stream == "stdout":
            stdout.extend(data)

    ended = await driver.run(make_trial(f"{name}-python", "-c", _PROGRAM), collect)
    if ended.reason is not EndReason.COMPLETED:
        detail = f"The sandbox's Python does not work: {ended.detail}"
        raise PrepareFailed(EndReason.SANDBOX_FAILED, detail)
    return msgspec.json.decode(stdout, type=PythonFacts)


def check_version(python: PythonFacts, requires_python: str | None) -> None:
    """Raises PrepareFailed if the script requires another Python version."""
    if requires_python is None:
        return
    if not SpecifierSet(requires_python).contains(python.version, prereleases=True):
        raise prepare_failed(
            f"The script requires Python {requires_python}, but the sandbox of this node has"
            f" Python {python.version}. Change `requires-python` or choose another node."
        )
