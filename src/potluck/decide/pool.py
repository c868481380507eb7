"""All rooms: which there are, which are alike, which are unused, and which were touched lately."""

from bisect import bisect_left, insort

from potluck.decide.room import Profile, Room, place_of, profile_key
from potluck.decide.snapshot import FreeNode
from potluck.model.ids import NodeId


class Pool:
    def __init__(self) -> None:
        self.rooms: dict[int, Room] = {}  # by place
        self.profiles: dict[object, Profile] = {}
        self.profiles_version = 0
        # When a room was opened or gained something, the latest last.
        self.touched: dict[int, int] = {}
        self.last_touch = 0
        self._places: dict[NodeId, int] = {}
        self._numbers = 0

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
            has_gained = True
        else:
            self._leave(room)
            before = Room(room.as_node(), room.profile, room.place)
            room.read(node, profile)
            has_gained = profile is not before.profile or room.has_more_than(before)
        profile.count += 1
        self._enter(room)
        if has_gained:
            self.touch(room)
        return has_gained

    def drop(self, node_id: NodeId) -> None:
        room = self.get(node_id)
        if room is not None:
            self._leave(room)
            del self.rooms[room.place]
            del self._places[node_id]
            self.touched.pop(room.place, None)

    def note_use(self, room: Room, was_idle: bool) -> None:
        """Keeps the lists of unused rooms right after something was taken or given."""
        if was_idle == room.is_idle:
            return
        idle = room.profile.idle
        if room.is_idle:
            insort(idle, -room.place)
        else:
            _remove(idle, -room.place)
            self.touch(room)

    def touch(self, room: Room) -> None:
        self.last_touch += 1
        self.touched.pop(room.place, None)
        self.touched[room.place] = self.last_touch

    def _profile(self, node: FreeNode) -> Profile:
        key = profile_key(node)
        profile = self.profiles.get(key)
        if profile is None:
            profile = self.profiles[key] = Profile(node)
            self.profiles_version += 1
        return profile

    def _enter(self, room: Room) -> None:
        if room.is_idle:
            insort(room.profile.idle, -room.place)

    def _leave(self, room: Room) -> None:
        room.profile.count -= 1
        if room.is_idle:
            _remove(room.profile.idle, -room.place)


def _remove(idle: list[int], place: int) -> None:
    position = bisect_left(idle, place)
    assert idle[position] == place
    del idle[position]
