"""Which Pythons this node can fetch, and from where.

uv has a list of Python builds with their hashes, by version and platform. An owner without a way to
the hosts of that list can name a list of their own, whose files are on the list's host.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from packaging.version import Version

from potluck.local.child_process import environment_without_secrets
from potluck.model.node import MOST_PYTHONS
from potluck.model.script import suits_python
from potluck.provider.dependencies.package_index import endpoint_of
from potluck.provider.egress.request import Endpoint

log = structlog.get_logger()

_HOSTS = (
    "releases.astral.sh",
    "github.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
)
_LIST_SECONDS = 10.0


class PythonList(Struct, frozen=True):
    """uv's own list, or one at `url` in the format of uv's `--python-downloads-json-url`."""

    url: str = ""

    def __post_init__(self) -> None:
        self.endpoints()  # raises now for an invalid address, rather than during a task

    def endpoints(self) -> frozenset[Endpoint]:
        """Every host and port that fetching a Python may connect to."""
        if not self.url:
            return frozenset((host, 443) for host in _HOSTS)
        return frozenset({endpoint_of(self.url, "The list of Pythons", _EXAMPLE)})

    @property
    def options(self) -> tuple[str, ...]:
        """Of uv."""
        return ("--python-downloads-json-url", self.url) if self.url else ()


_EXAMPLE = "POTLUCK_PROVIDER_PYTHON_LIST_URL=https://mirror.example.org/pythons.json"


class _Entry(Struct, frozen=True):
    version: str
    implementation: str = ""
    variant: str = ""


async def list_versions(uv: Path, source: PythonList) -> tuple[str, ...]:
    """The newest release of each minor version for this platform; none if the list is unusable."""
    where = source.options or ("--offline",)
    output = ("--output-format", "json", "--no-config", "--no-cache")
    process = await asyncio.create_subprocess_exec(
        *(str(uv), "python", "list", "--only-downloads", *output, *where),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment_without_secrets(*(name for name in os.environ if name.startswith("UV_"))),
    )
    try:
        async with asyncio.timeout(_LIST_SECONDS):
            stdout, _ = await process.communicate()
        entries = msgspec.json.decode(stdout, type=list[_Entry])
    except (TimeoutError, msgspec.MsgspecError) as error:
        log.warning("pythons_unknown", error=repr(error))
        return ()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    usual = (each for each in entries if (each.implementation, each.variant) == _USUAL)
    return newest_releases([each.version for each in usual])


_USUAL = ("cpython", "default")


def newest_releases(versions: Sequence[str]) -> tuple[str, ...]:
    """The newest of each minor version, oldest first, without pre-releases."""
    releases = [version for version in map(Version, versions) if not version.is_prerelease]
    newest = {(version.major, version.minor): str(version) for version in sorted(releases)}
    return tuple(newest.values())[-MOST_PYTHONS:]


def choose_version(versions: Sequence[str], required: str, own_version: str) -> str | None:
    """Of those that fit the one nearest to the node's own: packages exist for it most likely."""
    own_minor = Version(own_version).minor
    fitting = [version for version in versions if suits_python(required, version)]
    return min(fitting, key=lambda text: abs(Version(text).minor - own_minor), default=None)
