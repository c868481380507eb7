"""Which rooms have at least so much of a thing, as the bits of one number.

Every amount that somebody asks for is a level, and has a number in which the bit of a room's slot
is set if the room reaches it. A room that changes flips its bit in the levels that it passed, and
what reaches several levels at once is a few bitwise operations, however many rooms there are.
"""

from bisect import bisect_right, insort

# Whoever makes up amounts must not make every change of a room dear. With more levels than these
# an amount that is not among them is answered by the next lower one.
MOST_LEVELS = 256
EVERY = -1  # all bits are set


class Levels:
    __slots__ = ("_bits", "_levels", "_values")

    def __init__(self) -> None:
        self._values: dict[int, float] = {}  # by slot; where there is none it is 0
        self._levels: list[float] = []
        self._bits: dict[float, int] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def write(self, slot: int, value: float) -> None:
        before = self._values.get(slot, 0)
        if value == before:
            return
        if value:
            self._values[slot] = value
        else:
            del self._values[slot]
        levels = self._levels
        low, high = (before, value) if before < value else (value, before)
        first, last = bisect_right(levels, low), bisect_right(levels, high)
        if first < last:
            bit, bits = 1 << slot, self._bits
            for level in levels[first:last]:
                bits[level] ^= bit

    def at_least(self, level: float) -> int:
        """The slots of rooms that reach the level; of some more, where there are many levels."""
        bits = self._bits.get(level)
        return self._add(level) if bits is None else bits

    def _add(self, level: float) -> int:
        if level <= 0:
            return EVERY
        levels = self._levels
        if len(levels) >= MOST_LEVELS:
            lower = bisect_right(levels, level)
            return self._bits[levels[lower - 1]] if lower else EVERY
        insort(levels, level)
        reached = [slot for slot, value in self._values.items() if value >= level]
        bits = self._bits[level] = as_bits(reached)
        return bits


def as_bits(slots: list[int]) -> int:
    """A number with these bits set."""
    digits = bytearray(b"0") * (max(slots, default=0) + 1)
    for slot in slots:
        digits[-1 - slot] = ord("1")
    return int(digits, 2)
