"""How many nodes refuse a task for which reason.

Counted for all that are alike at once. Where one must look closer, at most some thirty rooms are
looked at, and they stand for the others: this is asked again and again for all that waits.
"""

from collections import Counter
from collections.abc import Sequence

from potluck.decide.pool.feasible import Refusal
from potluck.decide.pool.room import Room
from potluck.decide.pool.rooms import Pool
from potluck.decide.pool.want import Want

_MOST_LOOKS = 32


def count_refusals(want: Want, pool: Pool) -> Counter[Refusal]:
    if want.min_reliability is not None:
        every = _every(len(pool.rooms))
        return _look_at(want, list(pool.rooms.values())[::every], every)
    found: Counter[Refusal] = Counter()
    for profile in pool.profiles:
        devices = want.devices(profile)
        if isinstance(devices, Refusal):
            found[devices] += profile.count
    devices_busy, nodes_busy, slots = pool.busy(want)
    found[Refusal.DEVICE_BUSY] += devices_busy
    found[Refusal.NODE_BUSY] += nodes_busy
    every = _every(slots.size)
    rooms = [pool.index.rooms[slot] for slot in slots[::every].tolist()]
    return found + _look_at(want, rooms, every)


def _every(count: int) -> int:
    """Of so many rooms one in how many is looked at."""
    return 1 + max(0, count - 1) // _MOST_LOOKS


def _look_at(want: Want, rooms: Sequence[Room], every: int) -> Counter[Refusal]:
    answers = map(want.refusal, rooms)
    counts = Counter(answer for answer in answers if answer is not None)
    return Counter({refusal: count * every for refusal, count in counts.items()})
