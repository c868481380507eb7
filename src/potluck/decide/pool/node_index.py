"""All nodes of the pool, with their profiles, and bitmaps of those that are idle or suitable."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from potluck.decide.pool.bitmap_index import BitmapIndex, as_bits
from potluck.decide.pool.demand import Demand
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile, profile_key
from potluck.decide.types import DeviceShare, FreeNode, RunningAttempt
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId, NodeId
from potluck.model.task import Requirements

# With more entered nodes than this since a demand was last used, it is computed anew.
_MOST_ENTERED = 1024


class NodeIndex:
    def __init__(self) -> None:
        self._index = BitmapIndex()
        self._nodes: dict[NodeId, NodeCapacity] = {}
        self._profiles: dict[object, NodeProfile] = {}
        # Totals of the pool: available GPUs, and cores of nodes without any.
        self._gpus = 0
        self._cores = 0
        # Bitmaps of slots: of all nodes; of the listed ones, among which the first idle node of a
        # profile represents the others; and of the nodes that suit each demand.
        self._present = 0
        self._listed = 0
        self._suited: dict[Demand, tuple[int, int]] = {}  # with how many of `_entered` they contain
        self._entered: list[NodeCapacity] = []  # since the bitmaps were cleared
        self._asked: set[str] = set()  # the wallets that tasks name
        self._of_wallet: dict[str, set[NodeId]] = {}
        self.layout = 0  # changes with every node that enters or leaves
        self.version = 0  # changes with every node
        self._last_slots: tuple[frozenset[NodeId], int, int] = (frozenset(), 0, 0)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[NodeCapacity]:
        return iter(self._nodes.values())

    @property
    def profiles(self) -> list[NodeProfile]:
        return list(self._profiles.values())

    def get(self, node_id: NodeId) -> NodeCapacity | None:
        return self._nodes.get(node_id)

    def slots(self, requirements: Requirements) -> int:
        """How many such tasks would fit if the pool were one idle node."""
        milli = requirements.device_milli or WHOLE_DEVICE_MILLI * requirements.device_count
        slots = {
            DeviceKind.GPU: self._gpus * WHOLE_DEVICE_MILLI // milli,
            DeviceKind.CPU: self._cores // requirements.cores,
        }
        return (
            sum(slots.values())
            if requirements.device_kind is None
            else slots[requirements.device_kind]
        )

    def put(self, node: FreeNode) -> bool:
        """Adds or updates a node; returns whether capacity was gained."""
        key = profile_key(node, self._asked)
        capacity = self._nodes.get(node.id)
        if (
            capacity is not None
            and capacity.profile is self._profiles.get(key)
            and capacity.is_of(node)
        ):
            own_before, was_idle = capacity.own_milli, capacity.is_idle
            has_gained = capacity.read(node)
            self._index.rate(capacity)
            self._changed(capacity, own_before, was_idle)
            return has_gained
        self.drop(node.id)
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._profiles[key] = NodeProfile(node, key)
        self._enter(NodeCapacity(node, profile))
        return True

    def drop(self, node_id: NodeId) -> None:
        capacity = self._nodes.pop(node_id, None)
        if capacity is None:
            return
        self.layout += 1
        self.version += 1
        self._index.leave(capacity)
        self._disown(capacity.node)
        self._count(capacity, -1)
        profile, bit = capacity.profile, 1 << capacity.slot
        profile.nodes &= ~bit
        profile.idle &= ~bit
        self._list(capacity)
        self._listed &= ~bit
        self._present &= ~bit
        if not profile.nodes:
            del self._profiles[profile.key]
            for demand in self._suited:
                demand.forget(profile)

    def take(
        self,
        capacity: NodeCapacity,
        requirements: Requirements,
        shares: tuple[DeviceShare, ...],
        whose: AccountId,
    ) -> None:
        own_before, was_idle = capacity.own_milli, capacity.is_idle
        capacity.take(requirements, shares, whose)
        self._changed(capacity, own_before, was_idle)

    def give(
        self,
        capacity: NodeCapacity,
        amounts: Requirements | RunningAttempt,
        shares: tuple[DeviceShare, ...],
    ) -> None:
        own_before, was_idle = capacity.own_milli, capacity.is_idle
        capacity.give(amounts, shares)
        self._changed(capacity, own_before, was_idle)

    @property
    def by_slot(self) -> Sequence[NodeCapacity | None]:
        return self._index.by_slot

    def nodes(self, slots: int) -> Iterator[NodeCapacity]:
        return self._index.nodes(slots)

    def slots_of(self, node_ids: frozenset[NodeId]) -> int:
        """The slots of those that are in the pool; the last answer is cached."""
        asked, layout, slots = self._last_slots
        if asked is not node_ids or layout != self.layout:
            found = [capacity for each in node_ids if (capacity := self._nodes.get(each))]
            slots = as_bits([capacity.slot for capacity in found])
            self._last_slots = (node_ids, self.layout, slots)
        return slots

    def could_serve(self, demand: Demand, account_id: AccountId) -> int:
        """The slots of nodes that could serve a demand; one for all idle nodes of a profile."""
        found = self._index.could_serve(demand, account_id)
        if not found:
            return 0
        known = self._suited.get(demand)
        if known is None or known[1] != len(self._entered):
            return found & self._listed & self._suited_by(demand)
        return found & self._listed & known[0]

    def every_that_could_serve(self, demand: Demand, account_id: AccountId) -> int:
        """Like `could_do`, with every idle node."""
        found = self._index.could_serve(demand, account_id)
        return found and found & self._present & self._suited_by(demand)

    def busy(self, demand: Demand, account_id: AccountId) -> tuple[int, int, int]:
        """See `Index.busy`."""
        return self._index.busy(demand, account_id, self.suited(demand))

    def suited(self, demand: Demand) -> int:
        """The slots of nodes that would serve the demand if they were idle."""
        return self._suited_by(demand) & self._present

    def forget_demands(self) -> None:
        self._forget_suited()
        self._asked.clear()

    def _forget_suited(self) -> None:
        self._suited.clear()
        self._entered.clear()

    def ask_for(self, wallets: Iterable[str]) -> list[FreeNode]:
        """Notes wallets that a task names; returns their nodes, to be put again."""
        new = set(wallets) - self._asked
        self._asked |= new
        found = [each for wallet in sorted(new) for each in sorted(self._of_wallet.get(wallet, ()))]
        return [self._nodes[node_id].as_node() for node_id in found]

    def _disown(self, node: FreeNode) -> None:
        others = self._of_wallet[node.wallet]
        others.discard(node.id)
        if not others:
            del self._of_wallet[node.wallet]

    def _enter(self, capacity: NodeCapacity) -> None:
        self.layout += 1
        self.version += 1
        self._nodes[capacity.node.id] = capacity
        self._count(capacity, 1)
        self._of_wallet.setdefault(capacity.node.wallet, set()).add(capacity.node.id)
        if self._index.enter(capacity):
            self._list_anew()
            return
        profile, bit = capacity.profile, 1 << capacity.slot
        self._present |= bit
        profile.nodes |= bit
        profile.idle |= capacity.is_idle << capacity.slot
        self._list(capacity)
        self._entered.append(capacity)
        if len(self._entered) > _MOST_ENTERED:
            self._forget_suited()

    def _count(self, capacity: NodeCapacity, sign: int) -> None:
        gpus = len(capacity.profile.gpus)
        self._gpus += sign * gpus
        self._cores += 0 if gpus else sign * capacity.node.cores

    def _list_anew(self) -> None:
        """Rebuilds all bitmaps after the slots have changed."""
        self._forget_suited()
        self._present = self._listed = 0
        for profile in self._profiles.values():
            profile.nodes = profile.idle = 0
        for capacity in self._nodes.values():
            capacity.profile.nodes |= 1 << capacity.slot
            capacity.profile.idle |= capacity.is_idle << capacity.slot
        for capacity in self._nodes.values():
            self._present |= 1 << capacity.slot
            self._list(capacity)

    def _suited_by(self, demand: Demand) -> int:
        """May contain bits of slots that are empty now.

        Checks the nodes that entered since the last call: a node costs nothing as it enters,
        however many demands are known.
        """
        known = self._suited.get(demand)
        if known is None:
            suited = self._suited_anew(demand)
        else:
            suited, seen = known
            if seen == len(self._entered):
                return suited
            for capacity in islice(self._entered, seen, None):
                suited = self._with_entered(demand, suited, capacity)
        self._suited[demand] = (suited, len(self._entered))
        return suited

    def _suited_anew(self, demand: Demand) -> int:
        demand.forget_others(self._profiles.values())
        suited = 0
        for profile in self._profiles.values():
            if not isinstance(demand.devices(profile), Refusal):
                suited |= profile.nodes
        return suited

    def _with_entered(self, demand: Demand, suited: int, capacity: NodeCapacity) -> int:
        if self._nodes.get(capacity.node.id) is not capacity:
            return suited  # it has left; a node that has its slot now entered later
        bit = 1 << capacity.slot
        is_refused = isinstance(demand.devices(capacity.profile), Refusal)
        return suited & ~bit if is_refused else suited | bit

    def _changed(
        self, capacity: NodeCapacity, own_before: dict[AccountId, int], was_idle: bool
    ) -> None:
        self.version += 1
        self._index.write(capacity, own_before)
        if capacity.is_idle != was_idle:
            capacity.profile.idle ^= 1 << capacity.slot
            self._list(capacity)

    def _list(self, capacity: NodeCapacity) -> None:
        """Lists a node; of the idle nodes of its profile only the first."""
        idle = capacity.profile.idle
        listed = self._listed | 1 << capacity.slot
        if idle:
            listed = listed & ~idle | 1 << idle.bit_length() - 1
        self._listed = listed
