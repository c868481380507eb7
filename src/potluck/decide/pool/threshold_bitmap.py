"""Which rooms have at least so much of a thing, as the bits of one number.

Every amount that somebody asks for is a level, and has a number in which the bit of a room's slot
is set if the room reaches it. A room that changes flips its bit in the levels that it passed, and
what reaches several levels at once is a few bitwise operations, however many rooms there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

# Whoever makes up amounts must not make every change of a room dear. With more levels than these
# the oldest is given up; if it is asked for again, it costs little to find out anew.
MOST_LEVELS = 256
EVERY = -1  # all bits are set
_WORD = 256
_FIRST_WORD = (1 << _WORD) - 1


class Levels:
    __slots__ = ("_bits", "_levels", "_values")

    def __init__(self) -> None:
        self._values: dict[int, float] = {}  # by slot; where there is none it is 0
        self._levels: list[float] = []
        self._bits: dict[float, int] = {}  # the oldest level first

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def count(self) -> int:
        """Of levels that are kept in mind."""
        return len(self._levels)

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
        """The slots of rooms that reach the level."""
        bits = self._bits.get(level)
        return self._add(level) if bits is None else bits

    def _add(self, level: float) -> int:
        if level <= 0:
            return EVERY
        if len(self._levels) >= MOST_LEVELS:
            self._give_up(next(iter(self._bits)))
        bits = self._bits[level] = self._find(level)
        insort(self._levels, level)
        return bits

    def _give_up(self, level: float) -> None:
        del self._bits[level]
        del self._levels[bisect_left(self._levels, level)]

    def _find(self, level: float) -> int:
        """Looks only at those who reach the next lower level, and not the next higher one."""
        levels, values = self._levels, self._values
        place = bisect_left(levels, level)
        higher = self._bits[levels[place]] if place < len(levels) else 0
        between: Iterable[int] = values
        if place:
            between = slots_of(self._bits[levels[place - 1]] & ~higher)
        return higher | as_bits([slot for slot in between if values[slot] >= level])


def as_bits(slots: list[int]) -> int:
    """A number with these bits set."""
    digits = bytearray(b"0") * (max(slots, default=0) + 1)
    for slot in slots:
        digits[-1 - slot] = ord("1")
    return int(digits, 2)


def slots_of(bits: int) -> Iterator[int]:
    """Which bits are set, the lowest first."""
    for start, word in words_of(bits):
        while word:
            lowest = word & -word
            word ^= lowest
            yield start + lowest.bit_length() - 1


def words_of(bits: int) -> Iterator[tuple[int, int]]:
    """The bits a word at a time, which is quicker than all at once, and where the word starts."""
    start = 0
    while bits:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        start += skipped
        yield start, bits & _FIRST_WORD
        bits >>= _WORD
        start += _WORD
