"""Which blobs the rows of a backup name."""

from msgspec import Struct

from potluck.blobs.interface import Blobs
from potluck.server.flow.execute.attempt_log import LOGS, attempt_of, counted_chunks
from potluck.store.table_copy import StoredObject


class NeededBlob(Struct, frozen=True):
    key: str
    size_bytes: int | None = None  # None: a part of a log, which is small
    sha256: str | None = None  # None: not known
    attempt_id: str | None = None  # whose log it is a part of


async def list_needed(
    blobs: Blobs, objects: list[StoredObject], log_pieces: dict[str, int]
) -> tuple[list[NeededBlob], set[str]]:
    """The blobs, and the attempts whose log is not all there."""
    needed = [NeededBlob(each.key, each.size_bytes, each.sha256) for each in objects]
    keys: dict[str, list[str]] = {attempt_id: [] for attempt_id in log_pieces}
    for key in await blobs.list(LOGS):
        keys.get(attempt_of(key), []).append(key)
    short: set[str] = set()
    for attempt_id, pieces in log_pieces.items():
        chunks, is_complete = counted_chunks(keys[attempt_id], pieces)
        needed.extend(NeededBlob(key, attempt_id=attempt_id) for key in chunks)
        if not is_complete:
            short.add(attempt_id)
    return needed, short
