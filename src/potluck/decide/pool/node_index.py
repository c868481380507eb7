"""All nodes of the pool, with their profiles, and bitmaps of those that are idle or suitable."""

from collections.abc import Iterable, Iterator

from potluck.decide.pool.bitmap_index import Index
from potluck.decide.pool.demand import Want
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile, profile_key
from potluck.decide.types import DeviceShare, FreeNode, RunningAttempt
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId, NodeId
from potluck.model.task import Requirements

# With more cached demands than this, recomputing is cheaper than updating all for a new node.
_MOST_SUITED = 256


class Pool:
    def __init__(self) -> None:
        self._index = Index()
        self._rooms: dict[NodeId, NodeCapacity] = {}
        self._profiles: dict[object, NodeProfile] = {}
        # Totals of the pool: available GPUs, and cores of nodes without any.
        self._gpus = 0
        self._cores = 0
        # Bitmaps of slots: of all nodes; of the listed ones, among which the first idle node of a
        # profile represents the others; and of the nodes that suit each demand.
        self._present = 0
        self._listed = 0
        self._suited: dict[Want, int] = {}
        self._asked: set[str] = set()  # the wallets that tasks name
        self._of_wallet: dict[str, set[NodeId]] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def __iter__(self) -> Iterator[NodeCapacity]:
        return iter(self._rooms.values())

    @property
    def profiles(self) -> list[NodeProfile]:
        return list(self._profiles.values())

    def get(self, node_id: NodeId) -> NodeCapacity | None:
        return self._rooms.get(node_id)

    def slots(self, wanted: Requirements) -> int:
        """How many such tasks would fit if the pool were one idle node."""
        milli = wanted.device_milli or WHOLE_DEVICE_MILLI * wanted.device_count
        slots = {
            DeviceKind.GPU: self._gpus * WHOLE_DEVICE_MILLI // milli,
            DeviceKind.CPU: self._cores // wanted.cores,
        }
        return sum(slots.values()) if wanted.device_kind is None else slots[wanted.device_kind]

    def put(self, node: FreeNode) -> bool:
        """Adds or updates a node; returns whether capacity was gained."""
        key = profile_key(node, self._asked)
        room = self._rooms.get(node.id)
        if room is not None and room.profile is self._profiles.get(key) and room.is_of(node):
            own_before, was_idle = room.own_milli, room.is_idle
            has_gained = room.read(node)
            self._index.rate(room)
            self._changed(room, own_before, was_idle)
            return has_gained
        self.drop(node.id)
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._profiles[key] = NodeProfile(node, key)
        self._enter(NodeCapacity(node, profile))
        return True

    def drop(self, node_id: NodeId) -> None:
        room = self._rooms.pop(node_id, None)
        if room is None:
            return
        self._index.leave(room)
        self._disown(room.node)
        self._count(room, -1)
        profile, bit = room.profile, 1 << room.slot
        profile.rooms &= ~bit
        profile.idle &= ~bit
        self._list(room)
        self._listed &= ~bit
        self._present &= ~bit
        if not profile.rooms:
            del self._profiles[profile.key]
            for want in self._suited:
                want.forget(profile)

    def take(
        self,
        room: NodeCapacity,
        wanted: Requirements,
        shares: tuple[DeviceShare, ...],
        whose: AccountId,
    ) -> None:
        own_before, was_idle = room.own_milli, room.is_idle
        room.take(wanted, shares, whose)
        self._changed(room, own_before, was_idle)

    def give(
        self,
        room: NodeCapacity,
        amounts: Requirements | RunningAttempt,
        shares: tuple[DeviceShare, ...],
    ) -> None:
        own_before, was_idle = room.own_milli, room.is_idle
        room.give(amounts, shares)
        self._changed(room, own_before, was_idle)

    def rooms(self, slots: int) -> Iterator[NodeCapacity]:
        return self._index.rooms(slots)

    def could_do(self, want: Want, account_id: AccountId) -> int:
        """The slots of nodes that could serve a demand; one for all idle nodes of a profile."""
        return self._suited_by(want) & self._listed & self._index.could_do(want, account_id)

    def every_that_could_do(self, want: Want, account_id: AccountId) -> int:
        """Like `could_do`, with every idle node."""
        return self._suited_by(want) & self._present & self._index.could_do(want, account_id)

    def busy(self, want: Want, account_id: AccountId) -> tuple[int, int, int]:
        """See `Index.busy`."""
        return self._index.busy(want, account_id, self.suited(want))

    def suited(self, want: Want) -> int:
        """The slots of nodes that would serve the demand if they were idle."""
        return self._suited_by(want) & self._present

    def forget_wants(self) -> None:
        self._suited.clear()
        self._asked.clear()

    def ask_for(self, wallets: Iterable[str]) -> list[FreeNode]:
        """Notes wallets that a task names; returns their nodes, to be put again."""
        new = set(wallets) - self._asked
        self._asked |= new
        found = [each for wallet in sorted(new) for each in sorted(self._of_wallet.get(wallet, ()))]
        return [self._rooms[node_id].as_node() for node_id in found]

    def _disown(self, node: FreeNode) -> None:
        others = self._of_wallet[node.wallet]
        others.discard(node.id)
        if not others:
            del self._of_wallet[node.wallet]

    def _enter(self, room: NodeCapacity) -> None:
        self._rooms[room.node.id] = room
        self._count(room, 1)
        self._of_wallet.setdefault(room.node.wallet, set()).add(room.node.id)
        if self._index.enter(room):
            self._list_anew()
            return
        profile, bit = room.profile, 1 << room.slot
        self._present |= bit
        profile.rooms |= bit
        profile.idle |= room.is_idle << room.slot
        self._list(room)
        if len(self._suited) > _MOST_SUITED:
            self._suited.clear()
        for want, suited in self._suited.items():
            does = not isinstance(want.devices(profile), Refusal)
            self._suited[want] = suited | bit if does else suited & ~bit

    def _count(self, room: NodeCapacity, sign: int) -> None:
        gpus = len(room.profile.gpus)
        self._gpus += sign * gpus
        self._cores += 0 if gpus else sign * room.node.cores

    def _list_anew(self) -> None:
        """Rebuilds all bitmaps after the slots have changed."""
        self._suited.clear()
        self._present = self._listed = 0
        for profile in self._profiles.values():
            profile.rooms = profile.idle = 0
        for room in self._rooms.values():
            room.profile.rooms |= 1 << room.slot
            room.profile.idle |= room.is_idle << room.slot
        for room in self._rooms.values():
            self._present |= 1 << room.slot
            self._list(room)

    def _suited_by(self, want: Want) -> int:
        """May contain bits of slots that are empty now."""
        suited = self._suited.get(want)
        if suited is None:
            want.forget_others(self._profiles.values())
            suited = 0
            for profile in self._profiles.values():
                if not isinstance(want.devices(profile), Refusal):
                    suited |= profile.rooms
            self._suited[want] = suited
        return suited

    def _changed(
        self, room: NodeCapacity, own_before: dict[AccountId, int], was_idle: bool
    ) -> None:
        self._index.write(room, own_before)
        if room.is_idle != was_idle:
            room.profile.idle ^= 1 << room.slot
            self._list(room)

    def _list(self, room: NodeCapacity) -> None:
        """Lists a node; of the idle nodes of its profile only the first."""
        idle = room.profile.idle
        self._listed = ((self._listed | 1 << room.slot) & ~idle) | (idle & -idle)
