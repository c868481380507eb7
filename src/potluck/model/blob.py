"""Content-addressed bytes: inputs, results, files. Knowing a hash grants no access."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from potluck.model.bounded_types import END, Count, visible_to_end

Sha256Text = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]
# A part of a path that Windows would open as a device, whatever its extension or stream.
_DEVICE = (
    "(?:[Cc][Oo][Nn](?:[Ii][Nn]\\$|[Oo][Uu][Tt]\\$)?|[Pp][Rr][Nn]|[Aa][Uu][Xx]|[Nn][Uu][Ll]"
    "|(?:[Cc][Oo][Mm]|[Ll][Pp][Tt])[1-9\\u00b9\\u00b2\\u00b3]) *(?:[.:/]|$)"
)
# Relative, with slashes, without `..`, misleading characters and devices. With four bytes per
# character this length still fits a database index.
PATH_PATTERN = f"^(?!/)(?!.*(^|/)\\.{{0,2}}(/|$))(?!(?:.*/)?{_DEVICE})" + visible_to_end("\\\\")
PathText = Annotated[str, Meta(min_length=1, max_length=500, pattern=PATH_PATTERN)]
# Larger values are blobs.
INLINE_BYTES = 262_144
MOST_INPUT_FILES = 256
MOST_STDIN_BYTES = 67_108_864
MOST_OUTPUT_FILES = 10_000


def is_path(text: str) -> bool:
    """Whether it is a PathText that every file system can store."""
    if _is_simple(text):
        return True
    try:
        text.encode()
        msgspec.convert(text, PathText)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


_DEVICE_STARTS = ("con", "prn", "aux", "nul", "com", "lpt")


def _is_simple(text: str) -> bool:
    """Accepts most paths without the pattern, which takes ten times as long."""
    if not text.isascii() or not text.isprintable() or "\\" in text or len(text) > 500:
        return False
    parts = text.split("/")
    return all(part.strip(".") and part[:3].lower() not in _DEVICE_STARTS for part in parts)


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
