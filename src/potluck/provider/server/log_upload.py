"""The duty that uploads one attempt's log, in order and without gaps.

The server answers how many pieces it has, and sending continues from there, also if that is fewer
than expected (it was restored from a backup) or more (an earlier process had sent them). Rejected
pieces are dropped and replaced by a mark: the run continues, and its outcome counts.
"""

from collections.abc import Callable
from contextlib import suppress

from potluck.model.error import Conflict, InvalidInput, StaleLease
from potluck.model.lease import Lease
from potluck.provider.attempt.log_buffer import LogBuffer
from potluck.provider.event import Event, LeaseLost, LogAcknowledged, LogCut
from potluck.provider.server.server_client import NodeServerClient
from potluck.provider.server.throttle import Throttle
from potluck.wire.provider import LogChunk, PackedLogPiece

MOST_PIECES = 1_000
MOST_BYTES = 512 * 1024
CUT_MARK = "The server takes no more of this log; the rest is dropped.\n"


async def ship_log(
    link: NodeServerClient,
    lease: Lease,
    log: LogBuffer,
    tell: Callable[[list[Event]], bool],
    throttle: Throttle,
) -> None:
    """Runs until the attempt is forgotten, which cancels it, or the server takes no more."""
    offset = stuck = 0
    most_pieces = MOST_PIECES
    while True:
        await log.longer_than(offset)
        pieces = log.spool.read(offset, most_pieces, throttle.piece_bytes(MOST_BYTES))
        await throttle.take(sum(len(piece.data) for piece in pieces))
        try:
            known = await _send(link, lease, offset, pieces)
        except StaleLease:
            tell([LeaseLost(lease.attempt_id)])
            return
        except InvalidInput:
            if len(pieces) > 1:
                most_pieces = len(pieces) // 2  # there may be room for some
                continue
            await _mark_cut(link, lease, offset)
            tell([LogCut(lease.attempt_id)])
            return
        stuck = 0 if known > offset else stuck + 1
        offset = known
        tell([LogAcknowledged(lease.attempt_id, offset)])
        if stuck:
            await link.pause(stuck)


async def _send(
    link: NodeServerClient, lease: Lease, offset: int, pieces: list[PackedLogPiece]
) -> int:
    """How many pieces the server has now; 0 if the offset does not match its own."""
    try:
        answer = await link.append_log(LogChunk(lease, offset, tuple(pieces)))
    except StaleLease:
        raise
    except Conflict:
        return 0
    return answer.next_offset


async def _mark_cut(link: NodeServerClient, lease: Lease, offset: int) -> None:
    """In place of the rejected piece, if the server has room for it."""
    mark = PackedLogPiece("potluck", CUT_MARK.encode())
    with suppress(Conflict, InvalidInput):
        await link.append_log(LogChunk(lease, offset, (mark,)))
