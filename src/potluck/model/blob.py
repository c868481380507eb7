"""Content-addressed bytes: inputs, results, files. A hash names them; it is no key to them."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from potluck.model.bounded_types import DECEIVING, END, Count

Sha256Text = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]
# Relative, with slashes, and nothing that leads elsewhere or deceives who reads it. Of four bytes
# each, so many characters still fit into an index of the database.
PATH_PATTERN = f"^(?!/)(?!.*(^|/)\\.{{0,2}}(/|$))[^{DECEIVING}\\\\]+{END}"
PathText = Annotated[str, Meta(min_length=1, max_length=500, pattern=PATH_PATTERN)]
# What travels in a message itself; what is larger is a blob.
INLINE_BYTES = 262_144
MOST_INPUT_FILES = 256
MOST_OUTPUT_FILES = 10_000


def is_path(text: str) -> bool:
    """Whether it is a PathText, which every system can write."""
    try:
        text.encode()
        msgspec.convert(text, PathText)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


class BlobRef(Struct, frozen=True):
    """Bytes that somebody has uploaded."""

    sha256: Sha256Text
    size_bytes: Count


class Value(Struct, frozen=True):
    """Bytes that a function takes or gives: small ones as they are, large ones as a blob."""

    data: Annotated[bytes, Meta(max_length=INLINE_BYTES)] = b""
    blob: BlobRef | None = None  # instead of `data`


class NamedFile(Struct, frozen=True):
    """A file of a task, by its path in the task's directory."""

    path: PathText
    blob: BlobRef
