"""Copies the files in a run's output directory into the outbox."""

import os
from collections.abc import Iterator

from potluck.model.blob import MOST_OUTPUT_FILES
from potluck.provider.files.outbox import DiskFull, Outbox, OutputRole
from potluck.provider.files.walk import SkippedPaths, walk
from potluck.provider.sandbox.driver import WorkDirectory

OUTPUT_NAME = "output"
_CHUNK_BYTES = 2**20


def collect_outputs(
    work: WorkDirectory,
    outbox: Outbox,
    most_bytes: int,
    prefix: str = "",
    directory: str = OUTPUT_NAME,
) -> list[str]:
    """Returns sentences for the task's owner about omitted files.

    A sparse file can be larger than the task's disk; it is omitted, since it would fill this
    machine's disk instead.
    """
    skipped, too_large, no_room = SkippedPaths(), SkippedPaths(), SkippedPaths()
    most_files = MOST_OUTPUT_FILES - len(outbox)
    taken = left = 0
    for entry in walk(work.descriptor, directory, skipped):
        if entry.is_directory:
            continue
        left += 1
        if left > most_files:
            break
        if taken + entry.status.st_size > most_bytes:
            too_large.add(entry.path)
            continue
        try:
            descriptor = entry.open()
        except OSError:
            skipped.add(entry.path)
            continue
        taken += entry.status.st_size
        content = _content(descriptor, entry.status.st_size)
        try:
            outbox.add(OutputRole.OUTPUT, f"{prefix}{entry.path}", content)
        except DiskFull:
            no_room.add(entry.path)
    remarks = [
        f"left out, as {why}: {some.listed()}"
        for why, some in (
            ("they are not regular files or have unusable names", skipped),
            ("they are larger than the disk", too_large),
            ("this node's own disk is full", no_room),
        )
        if some.count
    ]
    if left > most_files:
        remarks.append(f"only the first {MOST_OUTPUT_FILES} files are kept")
    return [f"output: {remark}" for remark in remarks]


def _content(descriptor: int, left: int) -> Iterator[bytes]:
    """Reads at most `left` bytes, in case the file still grows."""
    try:
        while left and (data := os.read(descriptor, min(left, _CHUNK_BYTES))):
            left -= len(data)
            yield data
    finally:
        os.close(descriptor)
