"""The duty that carries one attempt's log to the server, in order and without gaps.

The server says how many pieces it has; sending goes on from there, also when that is less than we
thought (it came back from a backup) or more (an earlier life of ours had sent them).
"""

from collections.abc import Callable

from potluck.model.error import Conflict, InvalidInput, StaleLease
from potluck.model.lease import Lease
from potluck.provider.attempt_log import AttemptLog
from potluck.provider.event import Event, LeaseLost, LogAcknowledged, LogCut
from potluck.provider.link import Link
from potluck.wire.provider import LogChunk

MOST_PIECES = 1_000
MOST_BYTES = 512 * 1024


async def ship_log(
    link: Link, lease: Lease, log: AttemptLog, tell: Callable[[list[Event]], bool]
) -> None:
    """Runs until the attempt is forgotten, which cancels it, or the server wants no more."""
    offset = stuck = 0
    while True:
        await log.longer_than(offset)
        try:
            known = await _send(link, lease, log, offset)
        except StaleLease:
            tell([LeaseLost(lease.attempt_id)])
            return
        except InvalidInput:
            tell([LogCut(lease.attempt_id, offset)])
            return
        stuck = 0 if known > offset else stuck + 1
        offset = known
        tell([LogAcknowledged(lease.attempt_id, offset)])
        if stuck:
            await link.pause(stuck)


async def _send(link: Link, lease: Lease, log: AttemptLog, offset: int) -> int:
    """How many pieces the server has now; nought when it is not where we thought it was."""
    pieces = log.spool.read(offset, MOST_PIECES, MOST_BYTES)
    try:
        answer = await link.append_log(LogChunk(lease, offset, tuple(pieces)))
    except StaleLease:
        raise
    except Conflict:
        return 0
    return answer.next_offset
