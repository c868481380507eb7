"""Takes what a run has left in its output directory into the outbox."""

import os
from collections.abc import Iterator

from potluck.model.blob import MOST_OUTPUT_FILES
from potluck.provider.files.outbox import NoRoom, Outbox, OutputRole
from potluck.provider.files.walk import Passed, walk
from potluck.provider.sandbox.driver import WorkDirectory

OUTPUT_NAME = "output"
_CHUNK_BYTES = 2**20


def collect(
    work: WorkDirectory,
    outbox: Outbox,
    most_bytes: int,
    prefix: str = "",
    directory: str = OUTPUT_NAME,
) -> list[str]:
    """Sentences for the task's owner about what was left out.

    A file can be larger than all that the task may fill, if most of it is nothing; such a one is
    left out, as it would fill this machine instead.
    """
    passed, too_large, no_room = Passed(), Passed(), Passed()
    most_files = MOST_OUTPUT_FILES - len(outbox)
    taken = left = 0
    for found in walk(work.descriptor, directory, passed):
        if found.is_directory:
            continue
        left += 1
        if left > most_files:
            break
        if taken + found.status.st_size > most_bytes:
            too_large.add(found.path)
            continue
        try:
            descriptor = found.open()
        except OSError:
            passed.add(found.path)
            continue
        taken += found.status.st_size
        content = _content(descriptor, found.status.st_size)
        try:
            outbox.add(OutputRole.OUTPUT, f"{prefix}{found.path}", content)
        except NoRoom:
            no_room.add(found.path)
    remarks = [
        f"left out, as {why}: {some.listed()}"
        for why, some in (
            ("they are no plain files or no plain names", passed),
            ("they are larger than the disk", too_large),
            ("this node's own disk is full", no_room),
        )
        if some.count
    ]
    if left > most_files:
        remarks.append(f"only the first {MOST_OUTPUT_FILES} files are kept")
    return [f"output: {each}" for each in remarks]


def _content(descriptor: int, left: int) -> Iterator[bytes]:
    """No more than it was said to be, should somebody still write to it."""
    try:
        while left and (data := os.read(descriptor, min(left, _CHUNK_BYTES))):
            left -= len(data)
            yield data
    finally:
        os.close(descriptor)
