"""Resumable uploads, and the files of tasks.

An upload consists of parts of equal size, except the last. Each part is sent whole and stored
before it is acknowledged. Beginning an upload of the same bytes again returns the number of stored
parts, so that the client resumes after them. The hash is checked when all parts are there.
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
    """An upload for the account that owns the task; requires a valid lease."""

    lease: Lease
    blob: BlobRef


class Upload(Struct, frozen=True):
    """`parts_done` parts are stored. The account has the blob once it is `complete`."""

    upload_id: str  # empty when there is nothing to send
    part_bytes: int
    parts_done: int
    complete: bool


class AddedFile(Struct, frozen=True, forbid_unknown_fields=True):
    """An output file: a small one inline, a large one as an uploaded blob."""

    path: PathText
    data: Annotated[bytes, Meta(max_length=INLINE_BYTES)] = b""
    blob: BlobRef | None = None  # instead of `data`


class AddFiles(Struct, frozen=True, forbid_unknown_fields=True):
    """Output files of an attempt. A repeated path replaces the file."""

    lease: Lease
    files: Annotated[tuple[AddedFile, ...], Meta(min_length=1, max_length=1_000)]


class KeepCheckpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """An uploaded checkpoint for the next attempt; it replaces the previous one."""

    lease: Lease
    blob: BlobRef


class TaskFiles(Struct, frozen=True):
    """Files of the newest attempt that has any, or of all attempts of an array.

    `next_cursor` leads to the next ones.
    """

    attempt: int | None  # its number; none without files, or with several attempts
    files: list[NamedFile]
    kept_until: datetime | None = None  # None until the task has ended
    cleared: bool = False  # the files have been deleted
    next_cursor: str | None = None
