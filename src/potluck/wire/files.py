"""Files on their way: uploads that can be taken up again, and what a task's files are called.

An upload is a row of parts of one size, the last one shorter, each sent whole and kept before it is
acknowledged. Whoever begins an upload of the same bytes again is told how many parts are there, and
goes on behind them. The bytes are checked against their hash when all are there.
"""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.blob import INLINE_BYTES, BlobRef, NamedFile, PathText
from potluck.model.lease import Lease

PART_BYTES = 8 * 2**20
MOST_PARTS = 2**20


class BeginUpload(Struct, frozen=True, forbid_unknown_fields=True):
    blob: BlobRef


class BeginNodeUpload(Struct, frozen=True, forbid_unknown_fields=True):
    """For the account whose task it is; as long as the lease holds."""

    lease: Lease
    blob: BlobRef


class Upload(Struct, frozen=True):
    """`parts_done` parts are kept. The account has the blob once it is `complete`."""

    upload_id: str  # empty when there is nothing to send
    part_bytes: int
    parts_done: int
    complete: bool


class AddedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a task has left: a small one as it is, a large one uploaded before."""

    path: PathText
    data: Annotated[bytes, Meta(max_length=INLINE_BYTES)] = b""
    blob: BlobRef | None = None  # instead of `data`


class AddFiles(Struct, frozen=True, forbid_unknown_fields=True):
    """What an attempt has left. MessagePack; the same path again takes the place of the first."""

    lease: Lease
    files: Annotated[tuple[AddedFile, ...], Meta(min_length=1, max_length=1_000)]


class KeepCheckpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """Uploaded before; given to the next attempt in the place of any other."""

    lease: Lease
    blob: BlobRef


class TaskFiles(Struct, frozen=True):
    """What the newest attempt that left any has left, or all attempts at an array together.

    `next_cursor` asks for those behind.
    """

    attempt: int | None  # its number; none if there is none, or several
    files: list[NamedFile]
    kept_until: datetime | None = None  # None as long as the task is not over
    cleared: bool = False  # whatever it left is kept no longer
    next_cursor: str | None = None
