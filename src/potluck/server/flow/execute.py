"""Execute, as seen from the server: the node sends the log of what it runs.

Chunks are blobs, named by the count of pieces before them. The blob is written before it is counted
in, so an acknowledged piece is always there, and a repeated chunk is skipped by its offset.
"""

from potluck.model.error import Conflict, StaleLease, TooLarge
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token
from potluck.server.parts import Parts
from potluck.store import attempts, nodes
from potluck.wire import codec
from potluck.wire.consumer import LogPage, LogPiece
from potluck.wire.provider import LogAppended, LogChunk, PackedLogPiece

# A provider may lie about its cap; the remark that the log was cut still has room.
_SLACK_BYTES = 65_536
_PAGE_BYTES = 2**20


async def append_log(
    parts: Parts, account_id: AccountId, node_id: NodeId, chunk: LogChunk
) -> LogAppended:
    attempt_id = chunk.lease.attempt_id
    have = await _log_state(parts, account_id, node_id, chunk)
    if chunk.offset > have.pieces:
        raise Conflict(f"The log has {have.pieces} pieces, and the chunk begins at {chunk.offset}.")
    new = chunk.pieces[have.pieces - chunk.offset :]
    if not new:
        return LogAppended(have.pieces)
    size_bytes = sum(len(piece.data) for piece in new)
    if have.bytes + size_bytes > have.bytes_limit + _SLACK_BYTES:
        raise TooLarge(f"The log of {attempt_id} is over its limit of {have.bytes_limit} bytes.")
    await parts.blobs.put(_key(attempt_id, have.pieces), codec.encode_packed(new))
    async with parts.database.transaction() as connection:
        counted = await attempts.append_log(
            connection, attempt_id, have.pieces, len(new), size_bytes
        )
    if not counted:
        raise StaleLease(f"{attempt_id} is over.")
    await parts.live.wake(topics.task(have.task_id))
    return LogAppended(have.pieces + len(new))


async def _log_state(
    parts: Parts, account_id: AccountId, node_id: NodeId, chunk: LogChunk
) -> attempts.LogState:
    attempt_id = chunk.lease.attempt_id
    async with parts.database.transaction() as connection:
        await nodes.beat(connection, node_id, account_id)
        state = await attempts.log_state(connection, attempt_id, node_id)
    if state is None or not is_lease_token(parts.secret, attempt_id, chunk.lease.token):
        raise StaleLease(f"{attempt_id} is over, or not yours.")
    return state


async def read_log(
    parts: Parts, account_id: AccountId, task_id: TaskId, number: int | None, offset: int
) -> LogPage:
    """A page of the log of the newest attempt, or of the one with this number."""
    async with parts.database.transaction() as connection:
        found = await attempts.log_of_task(connection, task_id, account_id, number)
    if found is None:
        return LogPage(None, 0, 0, [], complete=False)
    pieces = await _read_pieces(parts, found, offset)
    end = offset + len(pieces)
    done = not found.is_live and end >= found.pieces
    return LogPage(found.attempt_id, offset, end, pieces, complete=done)


async def _read_pieces(parts: Parts, log: attempts.AttemptLog, offset: int) -> list[LogPiece]:
    pieces: list[LogPiece] = []
    size_bytes = 0
    for start, key in await _chunks(parts, log.attempt_id, offset, log.pieces):
        chunk = codec.decode_packed(await parts.blobs.get(key), tuple[PackedLogPiece, ...])
        wanted = chunk[max(0, offset - start) : log.pieces - start]
        pieces.extend(LogPiece(piece.stream, piece.data) for piece in wanted)
        size_bytes += sum(len(piece.data) for piece in wanted)
        if size_bytes >= _PAGE_BYTES:
            break
    return pieces


async def _chunks(
    parts: Parts, attempt_id: AttemptId, offset: int, end: int
) -> list[tuple[int, str]]:
    """The chunks that hold pieces from `offset` on, with the number of their first piece."""
    keys = await parts.blobs.list(_prefix(attempt_id))
    starts = [(int(key.rsplit("/", 1)[1]), key) for key in keys]
    first = max((start for start, _ in starts if start <= offset), default=0)
    return [(start, key) for start, key in starts if first <= start < end]


def _prefix(attempt_id: AttemptId) -> str:
    return f"logs/{attempt_id}/"


def _key(attempt_id: AttemptId, offset: int) -> str:
    return f"{_prefix(attempt_id)}{offset:08d}"
