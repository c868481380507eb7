"""An index that finds all nodes that could serve a demand with a few bit operations.

Each node has a slot, which is a bit in Python integers. Slots follow a fixed pseudo-random order
that is the same in every run, so different kinds of nodes are mixed. The first node has the highest
bit, because the highest bit of a long integer is found at once, and the lowest only by a search.
The result may contain a few nodes that do not fit, so each node is checked afterwards.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from zlib import crc32

from potluck.decide.pool.demand import Demand
from potluck.decide.pool.node_capacity import NodeCapacity
from potluck.model.ids import AccountId, NodeId

# Limits the cost of an update when tasks request many different amounts. The oldest level is
# dropped, and computed again on demand.
MOST_LEVELS = 256
EVERY = -1  # all bits are set
WORD = 128


class ThresholdBitmap:
    """Bitmaps of the slots whose value reaches each requested level."""

    __slots__ = ("_levels", "_values", "bits")

    def __init__(self) -> None:
        self._values: dict[int, float] = {}  # by slot; where there is none it is 0
        self._levels: list[float] = []
        # The bitmap of each level, the oldest level first. `at_least` adds those that are missing.
        self.bits: dict[float, int] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    @property
    def count(self) -> int:
        """The number of stored levels."""
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
        if before < value:
            first = bisect_right(levels, before)
            last = bisect_right(levels, value, first)
        else:
            first = bisect_right(levels, value)
            last = bisect_right(levels, before, first)
        if first < last:
            bit, bits = 1 << slot, self.bits
            for level in levels[first:last]:
                bits[level] ^= bit

    def at_least(self, level: float) -> int:
        """The slots whose value reaches the level."""
        bits = self.bits.get(level)
        return self._add(level) if bits is None else bits

    def _add(self, level: float) -> int:
        if level <= 0:
            return EVERY
        if len(self._levels) >= MOST_LEVELS:
            self._give_up(next(iter(self.bits)))
        bits = self.bits[level] = self._find(level)
        insort(self._levels, level)
        return bits

    def _give_up(self, level: float) -> None:
        del self.bits[level]
        del self._levels[bisect_left(self._levels, level)]

    def _find(self, level: float) -> int:
        """Checks only slots between the neighbouring levels."""
        levels, values = self._levels, self._values
        place = bisect_left(levels, level)
        higher = self.bits[levels[place]] if place < len(levels) else 0
        between: Iterable[int] = values
        if place:
            between = slots_of(self.bits[levels[place - 1]] & ~higher)
        return higher | as_bits([slot for slot in between if values[slot] >= level])


def as_bits(slots: list[int]) -> int:
    digits = bytearray(b"0") * (max(slots, default=0) + 1)
    for slot in slots:
        digits[-1 - slot] = ord("1")
    return int(digits, 2)


def slots_of(bits: int) -> Iterator[int]:
    """The positions of set bits, highest first."""
    for start, word in words_of(bits):
        while word:
            place = word.bit_length() - 1
            word ^= 1 << place
            yield start + place


def words_of(bits: int) -> Iterator[tuple[int, int]]:
    """Yields the bits in words, each with its offset, highest first.

    Faster than bit by bit, because each operation on a long integer copies it.
    """
    while bits:
        start = max(0, bits.bit_length() - WORD)
        yield start, bits >> start
        bits &= (1 << start) - 1


_LEAST_SLOTS = 64


class BitmapIndex:
    def __init__(self) -> None:
        self._rebuild((), _LEAST_SLOTS)

    def _rebuild(self, nodes: Iterable[NodeCapacity], size: int) -> None:
        self._size = size
        self._count = 0
        self.by_slot: list[NodeCapacity | None] = [None] * size
        self._whole, self._part, self._shared = (
            ThresholdBitmap(),
            ThresholdBitmap(),
            ThresholdBitmap(),
        )
        self._cores, self._memory, self._disk = (
            ThresholdBitmap(),
            ThresholdBitmap(),
            ThresholdBitmap(),
        )
        self._reliability = ThresholdBitmap()
        # The free part of devices on which the account already has fractions.
        self._own: dict[AccountId, ThresholdBitmap] = {}
        for capacity in sorted(nodes, key=lambda each: crc32(each.node.id.encode())):
            self._place(capacity)

    def nodes(self, slots: int) -> Iterator[NodeCapacity]:
        nodes = self.by_slot
        for start, word in words_of(slots):
            while word:
                place = word.bit_length() - 1
                word ^= 1 << place
                capacity = nodes[start + place]
                assert capacity is not None
                yield capacity

    def enter(self, capacity: NodeCapacity) -> bool:
        """Gives a node its slot; returns whether all other slots have changed."""
        is_full = 4 * (self._count + 1) > 3 * self._size
        if is_full:
            self._rebuild((each for each in self.by_slot if each is not None), 2 * self._size)
        self._place(capacity)
        return is_full

    def leave(self, capacity: NodeCapacity) -> None:
        for account_id in capacity.own_milli:
            self._write_own(account_id, capacity.slot, 0)
        self.by_slot[capacity.slot] = None
        self._count -= 1

    def _place(self, capacity: NodeCapacity) -> None:
        slot = self._size - 1 - place_of(capacity.node.id, self._size)
        while self.by_slot[slot] is not None:
            slot = (slot - 1) % self._size
        capacity.slot = slot
        self.by_slot[slot] = capacity
        self._count += 1
        self.rate(capacity)
        self.write(capacity, {})

    def rate(self, capacity: NodeCapacity) -> None:
        self._reliability.write(capacity.slot, capacity.node.reliability)

    def write(self, capacity: NodeCapacity, own_before: dict[AccountId, int]) -> None:
        """Updates a changed node; `own_before` is its `own_milli` before the change."""
        slot = capacity.slot
        self._cores.write(slot, capacity.cores)
        self._memory.write(slot, capacity.memory_bytes)
        self._disk.write(slot, capacity.disk_bytes)
        self._whole.write(slot, capacity.whole_gpus)
        own = capacity.own_milli
        if own is own_before:  # no device in parts has changed
            return
        self._part.write(slot, capacity.part_milli)
        self._shared.write(slot, capacity.shared_milli)
        if own != own_before:
            for account_id in own_before.keys() | own.keys():
                self._write_own(account_id, slot, own.get(account_id, 0))

    def _write_own(self, account_id: AccountId, slot: int, milli: int) -> None:
        own = self._own.get(account_id)
        if own is None:
            own = self._own[account_id] = ThresholdBitmap()
        own.write(slot, milli)
        if not own:
            del self._own[account_id]

    def could_serve(self, demand: Demand, account_id: AccountId) -> int:
        """The slots of nodes with enough free devices, cores, memory and disk."""
        needs = demand.needs
        if needs.whole_gpus:
            found = self._whole.at_least(needs.whole_gpus)
        else:
            found = self._open_to(demand, account_id) if needs.is_exclusive else EVERY
        if not found:  # in a full pool the devices decide
            return 0
        try:
            found &= self._cores.bits[demand.cores] & self._memory.bits[demand.memory_bytes]
            found &= self._disk.bits[demand.disk_bytes]
        except KeyError:  # a level that is asked for the first time
            found &= self._cores.at_least(demand.cores)
            found &= self._memory.at_least(demand.memory_bytes)
            found &= self._disk.at_least(demand.disk_bytes)
        if demand.min_reliability is not None:
            found &= self._reliability.at_least(demand.min_reliability)
        return found

    def _open_to(self, demand: Demand, account_id: AccountId) -> int:
        """Where an account could have a fraction: on an unused GPU, or on one that it may share."""
        milli = demand.needs.gpu_milli
        own = self._own.get(account_id)
        shared = self._whole.at_least(1) | self._shared.at_least(milli)
        return shared if own is None else shared | own.at_least(milli)

    def busy(self, demand: Demand, account_id: AccountId, suited: int) -> tuple[int, int, int]:
        """Splits the suitable nodes that are not free: by devices in use, by devices that other
        accounts use, and by too few cores or too little memory or disk."""
        needs = demand.needs
        if needs.whole_gpus:
            has_devices = is_open = suited & self._whole.at_least(needs.whole_gpus)
        else:
            has_devices = suited & (self._whole.at_least(1) | self._part.at_least(needs.gpu_milli))
            is_open = has_devices & self._open_to(demand, account_id)
        is_short = is_open & ~self.could_serve(demand, account_id)
        return suited & ~has_devices, has_devices & ~is_open, is_short


def place_of(node_id: NodeId, size: int) -> int:
    """The preferred place of a node among `size` of them, the first one being 0."""
    return crc32(node_id.encode()) * size >> 32
