"""Content-addressed bytes: inputs, results, files, and volumes, which are named data sets.

Knowing a hash grants no access.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, Count, visible_to_end
from potluck.model.error import InvalidInput
from potluck.model.terms import WalletText

Sha256Text = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]
# A part of a path that Windows would open as a device, whatever its extension or stream.
_DEVICE = (
    "(?:[Cc][Oo][Nn](?:[Ii][Nn]\\$|[Oo][Uu][Tt]\\$)?|[Pp][Rr][Nn]|[Aa][Uu][Xx]|[Nn][Uu][Ll]"
    "|(?:[Cc][Oo][Mm]|[Ll][Pp][Tt])[1-9\\u00b9\\u00b2\\u00b3]) *(?:[.:/]|$)"
)
# Relative, with slashes, without `..`, misleading characters and devices.
_WRONG_PART = f"(?:\\.{{0,2}}(?:/|$)|{_DEVICE})"
PATH_PATTERN = f"^(?!{_WRONG_PART})(?!.*/{_WRONG_PART})" + visible_to_end("\\\\")
# With four bytes per character this length still fits a database index.
LONGEST_PATH = 500
PathText = Annotated[str, Meta(min_length=1, max_length=LONGEST_PATH, pattern=PATH_PATTERN)]
# Larger values are blobs.
INLINE_BYTES = 262_144
MOST_INPUT_FILES = 256
MOST_STDIN_BYTES = 67_108_864
MOST_OUTPUT_FILES = 10_000


_PATH = re.compile(PATH_PATTERN)


def is_path(text: str) -> bool:
    """Whether it is a PathText that every file system can store."""
    if not 0 < len(text) <= LONGEST_PATH or _PATH.search(text) is None:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_nested(paths: Iterable[str]) -> tuple[str, str] | None:
    """A path that is the directory of another one, and that other, if there are any.

    What is below a path follows it, if slashes come before every other character.
    """
    ordered = sorted(paths, key=lambda path: path.replace("/", "\0"))
    return next((pair for pair in pairwise(ordered) if pair[1].startswith(f"{pair[0]}/")), None)


class BlobRef(Struct, frozen=True):
    """Uploaded bytes, by hash and size."""

    sha256: Sha256Text
    size_bytes: Count


class Value(Struct, frozen=True):
    """Input or output of a function: small values inline, large ones as a blob."""

    data: Annotated[bytes, Meta(max_length=INLINE_BYTES)] = b""
    blob: BlobRef | None = None  # instead of `data`


class NamedFile(Struct, frozen=True):
    """A file of a task, by its path in the task's directory."""

    path: PathText
    blob: BlobRef


MOST_VOLUMES = 1_000  # of an account
MOST_VERSIONS = 1_000  # of a volume
MOST_MOUNTS = 16  # of a task

VOLUME_PATTERN = f"^[a-z0-9][a-z0-9.-]{{1,62}}{END}"
# A wallet is always a text of its own: no volume name begins with 0x and 40 digits.
VolumeName = Annotated[str, Meta(min_length=2, max_length=63, pattern=VOLUME_PATTERN)]
_MOST_SHOWN = 80  # characters of a wrong name
VersionText = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]
# The beginning is enough, if it is that of one version only.
VersionPrefix = Annotated[str, Meta(pattern=f"^[0-9a-f]{{4,64}}{END}")]
SHORT_VERSION = 12
# Absolute, of plain names that do not begin with a dot.
MountPath = Annotated[
    str, Meta(min_length=2, max_length=200, pattern=f"^(?:/[A-Za-z0-9_][A-Za-z0-9._+-]*)+{END}")
]

_SYSTEM = (
    *("bin", "boot", "dev", "environment", "etc", "lib", "lib32", "lib64", "libx32", "opt"),
    *("proc", "root", "run", "sbin", "stdin", "sys", "tmp", "usr", "var"),
)
_WORK = "/work"
_OWN = (f"{_WORK}/output", f"{_WORK}/checkpoint")


class VolumeMount(Struct, frozen=True):
    """A volume in a task, read-only. The server sets what the task does not say: the version is
    then the whole one, and stays the same in all attempts."""

    name: VolumeName
    path: MountPath
    version: VersionPrefix | None = None  # by default the newest
    owner: WalletText | None = None  # of a volume that another account shares
    manifest: BlobRef | None = None
    size_bytes: Count = 0

    @property
    def held_key(self) -> str:
        """Under this name nodes say that they hold it. It depends on the owner, so that it
        does not reveal whether another account has the same data."""
        return hashlib.sha256(f"{self.owner}/{self.version}".encode()).hexdigest()

    @property
    def short_name(self) -> str:
        """With the beginning of its version, for people."""
        return self.name if self.version is None else f"{self.name}@{self.version[:SHORT_VERSION]}"


Mounts = Annotated[tuple[VolumeMount, ...], Meta(max_length=MOST_MOUNTS)]


def check_volume_name(name: str) -> None:
    """Before anything is sent: only the volumes of the account itself can be changed."""
    if re.fullmatch(VOLUME_PATTERN, name) is None:
        raise InvalidInput(
            f"{shorten_name(name)!r} is not a valid name for your volume: a name has 2 to 63"
            " lower-case letters, digits, `-` and `.`, and begins with a letter or digit.",
            "Write a name like imagenet, without a wallet and a version.",
        )


def shorten_name(name: str) -> str:
    """What was given as the name of a volume, for a message."""
    return name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…"


def check_mounts(mounts: Sequence[VolumeMount], file_paths: Iterable[str]) -> None:
    """Raises if a volume would hide a part of the system, another volume or a file."""
    taken = [f"{_WORK}/{path}" for path in file_paths]
    for mount in mounts:
        path = mount.path
        if path == _WORK or path.split("/")[1] in _SYSTEM or _overlaps(path, _OWN):
            raise InvalidInput(
                f"A volume cannot be mounted at {path}.",
                "Choose a path such as /data, or one in the task's directory: /work/data.",
            )
        if other := _overlaps(path, taken):
            raise InvalidInput(
                f"The volume at {path} and {other} are in the same place.", "Choose other paths."
            )
        taken.append(path)


def _overlaps(path: str, others: Iterable[str]) -> str | None:
    for other in others:
        if path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/"):
            return other
    return None
