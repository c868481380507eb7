"""Ends an installation whose environment grows past what the owner allows or the disk has."""

import asyncio
import time
from pathlib import Path

from potluck.provider.prepare.measure import Size, measure
from potluck.provider.prepare.outcome import failed
from potluck.provider.prepare.room import check_room
from potluck.provider.prepare.settings import PrepareSettings

# A large environment takes long to measure; this share of the time at most goes into it.
_REST_FOR_WORK = 10


async def watch(directory: Path, settings: PrepareSettings) -> None:
    """Returns never; raises PrepareFailed when it is too large or the disk is almost full."""
    while True:
        started = time.monotonic()
        check_size(await asyncio.to_thread(measure, directory), settings)
        check_room(directory)
        spent_seconds = time.monotonic() - started
        await asyncio.sleep(max(settings.watch_seconds, _REST_FOR_WORK * spent_seconds))


def check_size(size: Size, settings: PrepareSettings) -> None:
    if size.bytes > settings.environment_bytes:
        limit = settings.environment_bytes
        raise failed(f"The dependencies take more than the {limit:,} bytes that this node allows.")
    if size.files > settings.environment_files:
        limit = settings.environment_files
        raise failed(f"The dependencies have more than the {limit:,} files that this node allows.")
