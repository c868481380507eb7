"""Which rooms could do for a want, all at once: what is free of each, side by side in arrays.

The rooms stand in the fixed order of the nodes. Of unused ones that are alike only the first is
listed. The answer is a superset, cheap to get and small: whether a room really does is asked of it.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from potluck.decide.room import Profile, Room
from potluck.decide.want import Want
from potluck.model.ids import AccountId

Slots = NDArray[np.intp]
_Numbers = NDArray[np.int64]

_UNLISTED = -1
_ANYBODY = 0


class Index:
    def __init__(self) -> None:
        self._accounts: dict[AccountId, int] = {}
        self.lay_out(())

    def lay_out(self, rooms: Iterable[Room]) -> None:
        """Makes all anew; every room is to be written after that."""
        ordered = sorted(rooms, key=lambda room: room.place)
        self.rooms = ordered
        self._slots = {room.place: slot for slot, room in enumerate(ordered)}
        self._cores, self._memory, self._disk, self._gpu, self._whole, self._served = (
            np.full(len(ordered), _UNLISTED, dtype=np.int64) for _ in range(6)
        )
        self._profile = np.zeros(len(ordered), dtype=np.int64)

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
        self._served[slot] = self._serves(room)

    def forget(self, room: Room) -> None:
        self.unlist(self._slots[room.place])

    def unlist(self, slot: int) -> None:
        self._cores[slot] = self._gpu[slot] = self._whole[slot] = _UNLISTED

    def slots(self, places: Iterable[int]) -> Slots:
        """In order."""
        return np.array(sorted(self._slots[place] for place in places), dtype=np.intp)

    def could_do(self, want: Want, profiles: list[Profile], among: Slots | None) -> Slots:
        """The slots of rooms that could do, in order; among some only, if these are named."""
        needs = want.needs
        feature = self._whole if needs.whole_gpus else self._gpu if needs.gpu_milli else self._cores
        least = needs.whole_gpus or needs.gpu_milli or want.cores
        found = _at_least(feature, least, among)
        if needs.is_exclusive and found.size:
            served = self._served[found]
            own = self._number(want.account_id)
            found = found[(served == own) | (served == _ANYBODY)]
        if found.size:
            enough = self._memory[found] >= want.memory_bytes
            if needs.is_on_gpu:
                enough &= self._cores[found] >= want.cores
            found = found[enough]
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

    def _serves(self, room: Room) -> int:
        """Whose fractions could come to stand there: one account's only, or perhaps anybody's."""
        if room.whole_gpus:
            return _ANYBODY
        served: int | None = None
        for position in room.profile.gpus:
            if room.milli[position] and (account_id := room.serves[position]) is not None:
                number = self._number(account_id)
                if served not in (None, number) or room.may_share(position):
                    return _ANYBODY
                served = number
            elif room.milli[position]:
                return _ANYBODY
        return _ANYBODY if served is None else served

    def _number(self, account_id: AccountId) -> int:
        return self._accounts.setdefault(account_id, len(self._accounts) + 1)


def _at_least(feature: _Numbers, least: int, among: Slots | None) -> Slots:
    if among is None:
        return (feature >= least).nonzero()[0]
    return among[feature[among] >= least]
