"""Which rooms could do for a want, all at once: what is free of each, side by side in arrays.

The rooms stand in the fixed order of the nodes. Of unused ones that are alike only the first is
listed. The answer is a superset, cheap to get and small: whether a room really does is asked of it.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from potluck.decide.pool.room import Profile, Room
from potluck.decide.pool.want import Want
from potluck.model.ids import AccountId

Slots = NDArray[np.intp]
_Numbers = NDArray[np.int64] | NDArray[np.int16]

NO_SLOTS: Slots = np.zeros(0, dtype=np.intp)
_UNLISTED = -1


class Index:
    def __init__(self) -> None:
        self.lay_out(())

    def lay_out(self, rooms: Iterable[Room]) -> None:
        """Makes all anew; every room is to be written after that."""
        ordered = sorted(rooms, key=lambda room: room.place)
        self.rooms = ordered
        self._slots = {room.place: slot for slot, room in enumerate(ordered)}
        count = len(ordered)
        self._cores, self._memory, self._disk = (
            np.full(count, _UNLISTED, dtype=np.int64) for _ in range(3)
        )
        self._gpu, self._whole, self._open = (
            np.full(count, _UNLISTED, dtype=np.int16) for _ in range(3)
        )
        self._profile = np.zeros(count, dtype=np.intp)
        # What an account could have of devices on which its own fractions stand, and whose stand
        # on the devices of a room.
        self._own: dict[AccountId, NDArray[np.int16]] = {}
        self._served: dict[int, dict[AccountId, int]] = {}
        self._served_rooms: Counter[AccountId] = Counter()

    def write(self, room: Room, is_listed: bool) -> None:
        slot = self._slots[room.place]
        if not is_listed:
            self.unlist(slot)
            return
        self._cores[slot] = room.cores
        self._memory[slot] = room.memory_bytes
        self._disk[slot] = room.disk_bytes
        self._gpu[slot] = room.most_gpu_milli
        self._whole[slot] = room.whole_gpus
        self._profile[slot] = room.profile.number
        self._open[slot] = room.open_milli
        if room.own_milli or slot in self._served:
            self._serve(slot, room.own_milli)

    def forget(self, room: Room) -> None:
        self.unlist(self._slots[room.place])

    def unlist(self, slot: int) -> None:
        self._cores[slot] = self._gpu[slot] = self._whole[slot] = self._open[slot] = _UNLISTED
        self._serve(slot, {})

    def slots(self, rooms: Iterable[Room]) -> Slots:
        """In order."""
        return np.array(sorted(self._slots[room.place] for room in rooms), dtype=np.intp)

    def could_do(self, want: Want, among: Slots | None) -> Slots:
        """The slots of rooms that have the devices free, or the cores if it is these that count.

        In order; among some only, if these are named. `still` looks closer.
        """
        needs = want.needs
        if needs.is_exclusive:
            return self._open_to(want.account_id, needs.gpu_milli, among)
        feature = self._whole if needs.whole_gpus else self._cores
        return _at_least(feature, needs.whole_gpus or want.cores, among)

    def still(self, want: Want, profiles: list[Profile], slots: Slots) -> Slots:
        """Which of these rooms have the cores and the memory, and the devices at all."""
        enough = self._memory[slots] >= want.memory_bytes
        if want.needs.is_on_gpu:
            enough &= self._cores[slots] >= want.cores
        found = slots[enough]
        if found.size and not want.suits_all(profiles):
            found = found[want.suited(profiles)[self._profile[found]]]
        return found

    def busy(self, want: Want, profiles: list[Profile]) -> tuple[int, int, Slots]:
        """Of the rooms that would do if they were free: how many have their devices in use, how
        many too little of all else, and those of which one must look closer."""
        listed = (self._cores != _UNLISTED).nonzero()[0]
        listed = listed[want.suited(profiles)[self._profile[listed]]]
        needs = want.needs
        if needs.gpu_milli:
            is_busy = self._gpu[listed] < needs.gpu_milli
            return int(is_busy.sum()), 0, listed[~is_busy]
        if not needs.whole_gpus or not want.uses_all_gpus(profiles):
            return 0, 0, listed
        is_busy = self._whole[listed] < needs.whole_gpus
        rest = listed[~is_busy]
        is_short = (
            (self._cores[rest] < want.cores)
            | (self._memory[rest] < want.memory_bytes)
            | (self._disk[rest] < want.disk_bytes)
        )
        return int(is_busy.sum()), int(is_short.sum()), rest[:0]

    def _open_to(self, account_id: AccountId, milli: int, among: Slots | None) -> Slots:
        """Where an account could have a fraction."""
        own = self._own.get(account_id)
        if own is None:
            return _at_least(self._open, milli, among)
        if among is None:
            return ((self._open >= milli) | (own >= milli)).nonzero()[0]
        return among[(self._open[among] >= milli) | (own[among] >= milli)]

    def _serve(self, slot: int, own_milli: dict[AccountId, int]) -> None:
        before = self._served.pop(slot, {})
        for account_id in before:
            if account_id not in own_milli:
                self._own[account_id][slot] = 0
                self._served_rooms[account_id] -= 1
                if not self._served_rooms[account_id]:
                    del self._own[account_id], self._served_rooms[account_id]
        for account_id, milli in own_milli.items():
            if account_id not in before:
                self._served_rooms[account_id] += 1
            if account_id not in self._own:
                self._own[account_id] = np.zeros(len(self.rooms), dtype=np.int16)
            self._own[account_id][slot] = milli
        if own_milli:
            self._served[slot] = own_milli


def _at_least(feature: _Numbers, least: int, among: Slots | None) -> Slots:
    if among is None:
        return (feature >= least).nonzero()[0]
    return among[feature[among] >= least]
