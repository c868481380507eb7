"""All rooms: which there are, which are alike, which are unused, and which gained lately."""

from bisect import bisect_left, insort

from potluck.decide.pool.index import NO_SLOTS, Index, Slots
from potluck.decide.pool.room import Profile, Room, place_of, profile_key
from potluck.decide.pool.want import Want
from potluck.decide.snapshot import FreeNode
from potluck.model.ids import NodeId

# When more rooms gained something, looking at all of them is as quick; and when very few did, one
# by one is.
_FEW_TOUCHES = 1000
_VERY_FEW_TOUCHES = 6


class Pool:
    def __init__(self) -> None:
        self.rooms: dict[int, Room] = {}  # by place
        self.profiles: list[Profile] = []
        self.index = Index()
        self.last_touch = 0
        self.last_listing = 0  # also counts unused rooms that came to stand for those like them
        self._profiles: dict[object, Profile] = {}
        self._places: dict[NodeId, int] = {}
        self._numbers = 0
        self._is_laid_out = True
        # When a room gained something, the latest last.
        self._touched: dict[int, int] = {}
        # What was touched since then, as long as nothing else is.
        self._since: dict[int, Slots] = {}
        self._since_touch = 0

    def get(self, node_id: NodeId) -> Room | None:
        place = self._places.get(node_id)
        return None if place is None else self.rooms[place]

    def put(self, node: FreeNode) -> bool:
        """Takes a node in as it is; says whether it has gained anything."""
        profile = self._profile(node)
        room = self.get(node.id)
        if room is None:
            self._numbers += 1
            place = place_of(node.id, self._numbers)
            room = self.rooms[place] = Room(node, profile, place)
            self._places[node.id] = place
            self._is_laid_out = False
            has_gained = True
        else:
            self._leave(room)
            before = Room(room.as_node(), room.profile, room.place)
            room.read(node, profile)
            has_gained = profile is not before.profile or room.has_more_than(before)
        self._enter(room)
        if has_gained:
            self.touch(room)
        return has_gained

    def drop(self, node_id: NodeId) -> None:
        room = self.get(node_id)
        if room is not None:
            self._leave(room)
            if self._is_laid_out:
                self.index.forget(room)
            del self.rooms[room.place]
            del self._places[node_id]
            self._touched.pop(room.place, None)
            self._since.clear()
            self.last_listing += 1

    def note_use(self, room: Room, was_idle: bool) -> None:
        """After something was taken of a room, or given."""
        idle = room.profile.idle
        if was_idle and not room.is_idle:
            _remove(idle, -room.place)
            self._list_first(room.profile)
        elif room.is_idle and not was_idle:
            self._insert(room)
        self._write(room)

    def touch(self, room: Room) -> None:
        self.last_touch += 1
        self.last_listing += 1
        self._touched.pop(room.place, None)
        self._touched[room.place] = self.last_touch

    def could_do(self, want: Want, since: int) -> Slots:
        """Rooms that could do for a want, in order; of those that gained something since then."""
        if not self._is_laid_out:
            self._lay_out()
        touches = self.last_touch - since
        if touches <= _VERY_FEW_TOUCHES:
            rooms = [
                room
                for room in self._latest(since)
                if want.could_be_in(room) and self._is_listed(room)
            ]
            return self.index.slots(rooms) if rooms else NO_SLOTS
        among = self._touched_since(since) if touches <= _FEW_TOUCHES else None
        return self.index.could_do(want, among)

    def still(self, want: Want, slots: Slots) -> list[Room]:
        """Those of some rooms that could do also when one looks closer."""
        rooms = self.index.rooms
        return [rooms[slot] for slot in self.index.still(want, self.profiles, slots).tolist()]

    def busy(self, want: Want) -> tuple[int, int, Slots]:
        """Of the rooms that would do if they were free: see `Index.busy`."""
        if not self._is_laid_out:
            self._lay_out()
        return self.index.busy(want, self.profiles)

    def _latest(self, since: int) -> list[Room]:
        """The rooms that gained something since then."""
        rooms = []
        for place, number in reversed(self._touched.items()):
            if number <= since:
                break
            rooms.append(self.rooms[place])
        return rooms

    def _touched_since(self, since: int) -> Slots:
        if self._since_touch != self.last_touch:
            self._since.clear()
            self._since_touch = self.last_touch
        if since in self._since:
            return self._since[since]
        slots = self._since[since] = self.index.slots(self._latest(since))
        return slots

    def _lay_out(self) -> None:
        self.index.lay_out(self.rooms.values())
        self._is_laid_out = True
        self._since.clear()
        for room in self.rooms.values():
            self._write(room)

    def _profile(self, node: FreeNode) -> Profile:
        key = profile_key(node)
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._profiles[key] = Profile(node, len(self.profiles))
            self.profiles.append(profile)
        return profile

    def _enter(self, room: Room) -> None:
        room.profile.count += 1
        if room.is_idle:
            self._insert(room)
        self._write(room)

    def _leave(self, room: Room) -> None:
        room.profile.count -= 1
        if room.is_idle:
            _remove(room.profile.idle, -room.place)
            self._list_first(room.profile)

    def _insert(self, room: Room) -> None:
        """Among the unused rooms of its profile, of which the first is listed for all."""
        idle = room.profile.idle
        first = self.rooms[-idle[-1]] if idle else None
        insort(idle, -room.place)
        if first is not None and idle[-1] == -room.place:
            self._write(first)

    def _list_first(self, profile: Profile) -> None:
        if profile.idle:
            self.last_listing += 1
            self._write(self.rooms[-profile.idle[-1]])

    def _write(self, room: Room) -> None:
        if self._is_laid_out:
            self.index.write(room, self._is_listed(room))

    def _is_listed(self, room: Room) -> bool:
        return not room.is_idle or room.profile.idle[-1] == -room.place


def _remove(idle: list[int], place: int) -> None:
    position = bisect_left(idle, place)
    assert idle[position] == place
    del idle[position]
