"""Stores and reads the log that a node sends for an attempt.

Chunks are blobs, named by the number of pieces before them and in them, and by the time. A blob is
written before it is counted and never overwritten, so an acknowledged piece is always there; a
repeated chunk is skipped by its offset.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from potluck.model.error import Conflict, NotFound, TooLarge
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.server import topics
from potluck.server.flow.lease.adopt import find_or_readopt
from potluck.server.flow.lease.lease import check_token, mark_node_seen
from potluck.server.services import Services
from potluck.store.attempts import attempts
from potluck.store.nodes.nodes import Owner
from potluck.wire import codec
from potluck.wire.consumer import LogPage, LogPiece
from potluck.wire.provider import LogAppended, LogChunk, PackedLogPiece

# A provider may exceed its limit; leaves room for the note that the log was cut.
_SLACK_BYTES = 65_536
_PAGE_BYTES = 2**20
LOGS = "logs/"


async def append_log(
    services: Services, owner: Owner, node_id: NodeId, chunk: LogChunk
) -> LogAppended:
    attempt_id = chunk.lease.attempt_id
    check_token(services, chunk.lease)
    await mark_node_seen(services, owner, node_id)
    state = await _log_state(services, node_id, attempt_id)
    if chunk.offset > state.pieces:
        raise Conflict(f"The log has {state.pieces} pieces; the chunk begins at {chunk.offset}.")
    new = chunk.pieces[state.pieces - chunk.offset :]
    if not new:
        return LogAppended(state.pieces)
    if not await _append(services, attempt_id, state, new):
        # The same chunk arrived twice, and the other copy was counted.
        return LogAppended((await _log_state(services, node_id, attempt_id)).pieces)
    await services.live.wake(topics.task(state.task_id))
    return LogAppended(state.pieces + len(new))


async def _append(
    services: Services,
    attempt_id: AttemptId,
    state: attempts.LogState,
    new: tuple[PackedLogPiece, ...],
) -> bool:
    size_bytes = sum(len(piece.data) for piece in new)
    if state.bytes + size_bytes > state.bytes_limit + _SLACK_BYTES:
        raise TooLarge(f"The log of {attempt_id} is over its limit of {state.bytes_limit} bytes.")
    key = _key(attempt_id, state.pieces, len(new), state.now)
    await services.blobs.put(key, codec.encode_packed(new))
    async with services.database.transaction() as connection:
        return await attempts.append_log(connection, attempt_id, state.pieces, len(new), size_bytes)


async def _log_state(
    services: Services, node_id: NodeId, attempt_id: AttemptId
) -> attempts.LogState:
    async with services.database.transaction() as connection:
        lookup = partial(attempts.log_state, connection, attempt_id, node_id)
        return await find_or_readopt(services, connection, attempt_id, node_id, lookup)


async def read_log(
    services: Services, account_id: AccountId, task_id: TaskId, number: int | None, offset: int
) -> LogPage:
    """A page of the log of the newest attempt, or of the numbered one. A negative offset counts
    from the end."""
    async with services.database.transaction() as connection:
        log = await attempts.log_of_task(connection, task_id, account_id, number)
    if log is None and number is not None:
        raise NotFound(f"{task_id} has no attempt number {number}.")
    if log is None:
        return LogPage(None, 0, 0, [], complete=False)
    offset = offset if offset >= 0 else max(0, log.pieces + offset)
    pieces = await _read_pieces(services, log, offset)
    end = offset + len(pieces)
    done = not log.is_live and end >= log.pieces
    # Counted pieces are stored; if not here, then on the instance the node talked to.
    is_elsewhere = not pieces and offset < log.pieces
    return LogPage(log.attempt_id, offset, end, pieces, done, is_elsewhere, cleared=log.is_cleared)


async def _read_pieces(services: Services, log: attempts.AttemptLog, offset: int) -> list[LogPiece]:
    pieces: list[LogPiece] = []
    size_bytes = 0
    for chunk, skip in _chain(await _chunks(services, log), offset):
        packed = codec.decode_packed(
            await services.blobs.get(chunk.key), tuple[PackedLogPiece, ...]
        )
        pieces.extend(LogPiece(piece.stream, piece.data, chunk.at) for piece in packed[skip:])
        size_bytes += sum(len(piece.data) for piece in packed[skip:])
        if size_bytes >= _PAGE_BYTES:
            break
    return pieces


class _Chunk(NamedTuple):
    start: int
    end: int
    key: str
    at: datetime | None  # None: stored by an earlier version


async def _chunks(services: Services, log: attempts.AttemptLog) -> dict[int, _Chunk]:
    """By first piece. Of two that start alike, the longer one contains the other."""
    return _counted(await services.blobs.list(log_prefix(log.attempt_id)), log.pieces)


def _counted(keys: Iterable[str], pieces: int) -> dict[int, _Chunk]:
    counted = sorted(chunk for chunk in map(_chunk, keys) if chunk.end <= pieces)
    return {chunk.start: chunk for chunk in counted}


def counted_chunks(keys: Iterable[str], pieces: int) -> tuple[list[str], bool]:
    """Of an attempt's log: the chunks that have its counted pieces, and whether all are there."""
    chain = [chunk for chunk, _ in _chain(_counted(keys, pieces), 0)]
    return [chunk.key for chunk in chain], bool(chain) and chain[-1].end == pieces


def _chain(chunks: dict[int, _Chunk], position: int) -> Iterator[tuple[_Chunk, int]]:
    """Chunks from the piece at `position` on, without gaps, and how many pieces to skip in each."""
    starts = list(chunks)
    while index := bisect_right(starts, position):
        chunk = chunks[starts[index - 1]]
        if chunk.end <= position:
            return
        yield chunk, position - chunk.start
        position = chunk.end


def log_prefix(attempt_id: AttemptId) -> str:
    return f"{LOGS}{attempt_id}/"


def attempt_of(key: str) -> str:
    return key.split("/")[1]


def _key(attempt_id: AttemptId, start: int, count: int, at: datetime) -> str:
    return f"{log_prefix(attempt_id)}{start:08d}-{count}-{at.timestamp():.3f}"


def _chunk(key: str) -> _Chunk:
    start, count, *times = key.rsplit("/", 1)[1].split("-")
    at = datetime.fromtimestamp(float(times[0]), UTC) if times else None
    return _Chunk(int(start), int(start) + int(count), key, at)
