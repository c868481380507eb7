"""The free capacity of the pool, and the best placement in it for a task.

Exact: a task is placed on a node if and only if `feasibility.fit` accepts it. Fast: tasks with
equal requirements are one demand, equal nodes have one profile, and a few bit operations find the
nodes that could fit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from potluck.decide.placement.interface import Placement
from potluck.decide.pool.candidates import Accept, Candidates
from potluck.decide.pool.demand import Demand
from potluck.decide.pool.feasibility import Fit, Refusal, named_wallets
from potluck.decide.pool.gpu_share import with_gpu_share
from potluck.decide.pool.node_capacity import NodeCapacity
from potluck.decide.pool.node_index import NodeIndex
from potluck.decide.pool.permission import NodePermission
from potluck.decide.pool.permitted_nodes import PermittedNodes
from potluck.decide.pool.refusals import count_refusals
from potluck.decide.types import FreeNode, RunningAttempt, WaitingTask
from potluck.model.ids import AccountId, NodeId
from potluck.model.task import Requirements

_DemandKey = tuple[Requirements, AccountId, str]
_ANY_ACCOUNT = AccountId("")
_NO_TEXT: frozenset[str] = frozenset()
_NONE: frozenset[AccountId] = frozenset()
_MOST_DEMANDS = 20_000


class PoolCapacity:
    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.pool = NodeIndex()
        self._demands: dict[_DemandKey, Demand] = {}
        self._candidates: dict[_DemandKey, Candidates] = {}
        self._permitted: dict[Demand, PermittedNodes] = {}
        self._naming_nodes: Counter[AccountId] = Counter()
        # Accounts that some node treats specially: its owner, if it runs only the owner's tasks,
        # and the accounts that it allows or denies.
        self.named: frozenset[AccountId] = frozenset()
        self._holders: dict[str, set[NodeId]] = {}  # by `VolumeMount.held_key`
        self._has_gained = False
        self._nodes_prepared = 0
        self._is_due = True

    def put_node(self, node: FreeNode) -> bool:
        """Replaces a node; returns whether more than its free resources has changed."""
        before = self.pool.get(node.id)
        self._note_held(node.id, _NO_TEXT if before is None else before.node.held_volumes, node)
        self._has_gained |= self.pool.put(node)
        capacity = self.pool.get(node.id)
        if capacity is before:
            return False
        self._note_change(before, capacity)
        return True

    def drop_node(self, node_id: NodeId) -> None:
        """Counts as a gain: tasks that failed on all other nodes may retry those now."""
        before = self.pool.get(node_id)
        if before is not None:
            self._note_held(node_id, before.node.held_volumes, None)
        self._has_gained |= before is not None
        self.pool.drop(node_id)
        self._note_change(before, None)

    def node(self, node_id: NodeId) -> FreeNode | None:
        """The node with its current free resources."""
        capacity = self.pool.get(node_id)
        return None if capacity is None else capacity.as_node()

    def nodes(self) -> Iterator[FreeNode]:
        return (capacity.as_node() for capacity in self.pool)

    def slots(self, requirements: Requirements) -> int:
        """An upper estimate of how many such tasks could run at once on an idle pool."""
        return self.pool.slots(requirements)

    def learn(self, requirements: Requirements, count: int = 1) -> None:
        """Tells the placement which requirements tasks have."""
        self._placement.learn(requirements, count)

    def ask_for(self, wallets: Iterable[str]) -> bool:
        """Gives the nodes of these wallets profiles of their own; returns whether any changed.

        Other nodes share profiles regardless of their owner, which keeps profiles few.
        """
        changed = [self.put_node(node) for node in self.pool.ask_for(wallets)]
        return any(changed)

    def gained(self) -> bool:
        """Whether capacity was gained since the last call."""
        gained, self._has_gained = self._has_gained, False
        return gained

    def find(
        self,
        task: WaitingTask,
        most_price_micro_per_hour: int | None = None,
        may_use: Callable[[NodeId], bool] | None = None,
    ) -> Fit | None:
        """The best placement. Prefers owners none of whose nodes failed the task, then other nodes;
        takes a node that failed it only if no other could take it."""
        if self._placement.is_due or self._is_due:
            self._prepare()
        candidates = self._candidates_of(task)
        failed_on = task.failed_on
        if not failed_on and (may_use is None or isinstance(may_use, NodePermission)):
            return self._best(candidates, may_use, most_price_micro_per_hour)
        accept = _accept(may_use, failed_on) if may_use or failed_on else None
        fit = None
        if accept is not None and (owners := self._failed_owners(task)):
            strangers = _others_than(owners, accept)
            fit = self._best(candidates, strangers, most_price_micro_per_hour)
        if fit is None:
            fit = self._best(candidates, accept, most_price_micro_per_hour)
        if fit is None and failed_on and not self._suits_elsewhere(candidates.demand, task):
            fit = self._best(candidates, _accept(may_use, frozenset()), most_price_micro_per_hour)
        return fit

    def find_holder(
        self, task: WaitingTask, fit: Fit, may_use: Callable[[NodeId], bool] | None
    ) -> Fit:
        """A node that holds more of the task's volumes than that of `fit`, at no higher price, if
        there is one that has not failed the task and is not doubted; else `fit`."""
        candidates = self._candidates_of(task)
        for node_ids in self._by_held_bytes(task, fit.node_id):
            nodes = [
                capacity
                for each in sorted(node_ids - task.failed_on)
                if (capacity := self.pool.get(each)) is not None
                and not capacity.node.is_doubted
                and (may_use is None or may_use(each))
            ]
            offer = candidates.best_of(nodes, self._placement, fit.price_micro_per_hour)
            if offer is not None:
                shares = candidates.demand.shares(offer.capacity, offer.taken)
                return Fit(offer.capacity.node.id, shares, offer.price)
        return fit

    def _by_held_bytes(self, task: WaitingTask, but: NodeId) -> list[set[NodeId]]:
        """The nodes that hold more bytes of its volumes than this one, those with most first."""
        held: Counter[NodeId] = Counter()
        for mount in task.requirements.volumes:
            for node_id in self._holders.get(mount.held_key, ()):
                held[node_id] += 1 + mount.size_bytes
        groups: dict[int, set[NodeId]] = {}
        for node_id, size_bytes in held.items():
            if size_bytes > held[but]:
                groups.setdefault(size_bytes, set()).add(node_id)
        return [groups[size_bytes] for size_bytes in sorted(groups, reverse=True)]

    def _note_held(self, node_id: NodeId, before: frozenset[str], node: FreeNode | None) -> None:
        after = _NO_TEXT if node is None else node.held_volumes
        for version in before - after:
            self._holders[version].discard(node_id)
            if not self._holders[version]:
                del self._holders[version]
        for version in after - before:
            self._holders.setdefault(version, set()).add(node_id)

    def has_capacity(self, task: WaitingTask) -> bool:
        """Whether `find` would find anything, at any price."""
        if task.failed_on:
            return self.find(task) is not None
        return self._candidates_of(task).has_capacity(self.pool)

    def could_fit(self, task: WaitingTask) -> bool:
        """A cheap check whether `find` may succeed; hardly ever true in vain."""
        return self._candidates_of(task).could_fit(self.pool)

    def take(self, task: WaitingTask, fit: Fit) -> Fit:
        """Takes the placement out of the capacity until the next `put_node`; returns it with what
        the task really gets."""
        capacity = self._node_capacity(fit.node_id)
        amounts = with_gpu_share(task.requirements, capacity, fit.shares, task.account_id)
        self.pool.take(capacity, amounts, fit.shares, task.account_id)
        return Fit(fit.node_id, fit.shares, fit.price_micro_per_hour, amounts)

    def untake(self, task: WaitingTask, fit: Fit) -> None:
        amounts = fit.requirements or task.requirements
        self.pool.give(self._node_capacity(fit.node_id), amounts, fit.shares)

    def give(self, attempt: RunningAttempt) -> None:
        """Frees the resources of an ended attempt, where the node is not read again."""
        capacity = self.pool.get(attempt.node_id)
        if capacity is not None:
            self.pool.give(capacity, attempt, attempt.shares)
            self._has_gained = True

    def owner_of(self, node_id: NodeId) -> AccountId:
        return self._node_capacity(node_id).node.account_id

    def refusals(self, task: WaitingTask) -> Counter[Refusal]:
        return count_refusals(self._candidates_of(task).demand, task.account_id, self.pool)

    def _best(
        self, candidates: Candidates, accept: Accept | NodePermission | None, most_price: int | None
    ) -> Fit | None:
        offer = candidates.best(self.pool, self._placement, accept, most_price)
        if offer is None:
            return None
        capacity = offer.capacity
        return Fit(capacity.node.id, candidates.demand.shares(capacity, offer.taken), offer.price)

    def _candidates_of(self, task: WaitingTask) -> Candidates:
        requirements, account_id = task.requirements, task.account_id
        is_personal = requirements.device_milli is not None or account_id in self.named
        key = (requirements, account_id if is_personal else _ANY_ACCOUNT, task.kind)
        known = self._candidates.get(key)
        if known is None:
            if len(self._candidates) >= _MOST_DEMANDS:
                self._forget_demands()
            demand = self.demand_of(task)
            permitted = self._permitted.setdefault(demand, PermittedNodes())
            known = self._candidates[key] = Candidates(demand, key[1], permitted)
        return known

    def demand_of(self, task: WaitingTask) -> Demand:
        """Accounts that no node treats specially share their demands."""
        asker = task.account_id if task.account_id in self.named else _ANY_ACCOUNT
        key = (task.requirements, asker, task.kind)
        demand = self._demands.get(key)
        if demand is None:
            if len(self._demands) >= _MOST_DEMANDS:
                self._forget_demands()
            self.ask_for(named_wallets(task.requirements))
            demand = self._demands[key] = Demand(replace(task, account_id=asker))
        return demand

    def _forget_demands(self) -> None:
        self._candidates.clear()
        self._demands.clear()
        self._permitted.clear()
        self.pool.forget_demands()

    def _failed_owners(self, task: WaitingTask) -> set[str]:
        """The wallets of nodes that failed the task, unless they are the consumer's own."""
        nodes = [capacity.node for each in task.failed_on if (capacity := self.pool.get(each))]
        return {node.wallet for node in nodes if node.account_id != task.account_id}

    def _suits_elsewhere(self, demand: Demand, task: WaitingTask) -> bool:
        """Whether a node that has not failed the task could ever take it."""
        return any(
            capacity.node.id not in task.failed_on and demand.suits(capacity)
            for capacity in self.pool
        )

    def _node_capacity(self, node_id: NodeId) -> NodeCapacity:
        capacity = self.pool.get(node_id)
        assert capacity is not None, f"nothing is known of {node_id}"
        return capacity

    def _prepare(self) -> None:
        """Prepares the placement again after the pool or the mix has changed a lot."""
        self._placement.prepare(self.pool.profiles)
        self._nodes_prepared = len(self.pool)
        self._is_due = False

    def _note_change(self, before: NodeCapacity | None, after: NodeCapacity | None) -> None:
        more = abs(len(self.pool) - self._nodes_prepared)
        self._is_due |= 8 * more > self._nodes_prepared
        gone, come = (
            _NONE if capacity is None else capacity.profile.named for capacity in (before, after)
        )
        if gone != come:
            self._count_named(gone - come, come - gone)

    def _count_named(self, gone: frozenset[AccountId], come: frozenset[AccountId]) -> None:
        counts = self._naming_nodes
        counts.subtract(gone)
        counts.update(come)
        changed = {each for each in gone | come if bool(counts[each]) != (each in self.named)}
        for each in gone:
            if not counts[each]:
                del counts[each]
        if changed:
            self.named ^= changed
            # Their candidates depend on whether the account is named.
            kept = {key: each for key, each in self._candidates.items() if key[1] not in changed}
            self._candidates = kept


def _accept(
    may_use: Callable[[NodeId], bool] | None, failed_on: frozenset[NodeId]
) -> Accept | None:
    if not failed_on:
        return None if may_use is None else lambda capacity: may_use(capacity.node.id)
    if may_use is None:
        return lambda capacity: capacity.node.id not in failed_on
    return lambda capacity: capacity.node.id not in failed_on and may_use(capacity.node.id)


def _others_than(owners: set[str], accept: Accept) -> Accept:
    return lambda capacity: capacity.node.wallet not in owners and accept(capacity)
