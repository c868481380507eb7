"""What is free in the pool, and the best place in it for a task.

Exact: a task is placed on a node if and only if `feasible.fit` would say so. Quick: tasks that ask
for the same are one want, nodes that are alike have one profile, and which rooms could do is a few
operations on bits for all of them at once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from potluck.decide.placement.interface import Placement
from potluck.decide.pool.candidates import Accept, Candidates
from potluck.decide.pool.demand import Want
from potluck.decide.pool.feasibility import Fit, Refusal
from potluck.decide.pool.node_capacity import NodeCapacity
from potluck.decide.pool.node_index import Pool
from potluck.decide.pool.refusals import count_refusals
from potluck.decide.types import FreeNode, RunningAttempt, WaitingTask
from potluck.model.ids import AccountId, NodeId
from potluck.model.task import Requirements

_WantKey = tuple[Requirements, AccountId, str]
_NOBODY = AccountId("")
_NONE: frozenset[AccountId] = frozenset()
_MOST_WANTS = 20_000


class Capacity:
    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self.pool = Pool()
        self._wants: dict[_WantKey, Want] = {}
        self._candidates: dict[_WantKey, Candidates] = {}
        self._naming_nodes: Counter[AccountId] = Counter()
        # Whom some node treats unlike others: its owner, whose tasks alone it runs, or who is on a
        # list of whom it takes or does not take.
        self.named: frozenset[AccountId] = frozenset()
        self._has_gained = False
        self._rooms_prepared = 0
        self._is_due = True

    def put_node(self, node: FreeNode) -> bool:
        """Replaces what was known of a node; says whether it is another one, and not only has more
        or less free than before."""
        before = self.pool.get(node.id)
        self._has_gained |= self.pool.put(node)
        room = self.pool.get(node.id)
        if room is before:
            return False
        self._note_change(before, room)
        return True

    def drop_node(self, node_id: NodeId) -> None:
        """A gain too: whoever waited for it, having failed everywhere else, may go there now."""
        before = self.pool.get(node_id)
        self._has_gained |= before is not None
        self.pool.drop(node_id)
        self._note_change(before, None)

    def node(self, node_id: NodeId) -> FreeNode | None:
        """A node as it is now, with what was taken since it was put."""
        room = self.pool.get(node_id)
        return None if room is None else room.as_node()

    def nodes(self) -> Iterator[FreeNode]:
        return (room.as_node() for room in self.pool)

    def slots(self, requirements: Requirements) -> int:
        """About how many that ask for this could run at once if all nodes were free and took them;
        rather too many."""
        return self.pool.slots(requirements)

    def learn(self, requirements: Requirements, count: int = 1) -> None:
        """Somebody asks for this: what is kept usable should suit it."""
        self._placement.learn(requirements, count)

    def ask_for(self, wallets: Iterable[str]) -> bool:
        """Somebody asks for nodes of these wallets; whether nodes are told apart now that were not.

        Else it would be worked out anew for each owner what is the same for all of them.
        """
        changed = [self.put_node(node) for node in self.pool.ask_for(wallets)]
        return any(changed)

    def gained(self) -> bool:
        """Whether any room appeared since this was asked the last time."""
        gained, self._has_gained = self._has_gained, False
        return gained

    def find(
        self,
        task: WaitingTask,
        most_price_micro_per_hour: int | None = None,
        may_use: Callable[[NodeId], bool] | None = None,
    ) -> Fit | None:
        """The best place, not on nodes that failed the task unless no other could ever take it."""
        if self._placement.is_due or self._is_due:
            self._prepare()
        candidates = self._candidates_of(task)
        failed_on = task.failed_on
        accept = _accept(may_use, failed_on) if may_use or failed_on else None
        fit = self._best(candidates, accept, most_price_micro_per_hour)
        if fit is None and failed_on and not self._suits_elsewhere(candidates.want, task):
            fit = self._best(candidates, _accept(may_use, frozenset()), most_price_micro_per_hour)
        return fit

    def has_room(self, task: WaitingTask) -> bool:
        """Whether `find` would find anything, at any price."""
        if task.failed_on:
            return self.find(task) is not None
        return self._candidates_of(task).has_room(self.pool)

    def could_have_room(self, task: WaitingTask) -> bool:
        """Whether it is worth while to ask `find` again: hardly ever in vain, and for little."""
        return self._candidates_of(task).could_have_room(self.pool)

    def take(self, task: WaitingTask, fit: Fit) -> None:
        """Marks as taken, until `put_node` says otherwise."""
        room = self._room(fit.node_id)
        self.pool.take(room, task.requirements, fit.shares, task.account_id)

    def untake(self, task: WaitingTask, fit: Fit) -> None:
        self.pool.give(self._room(fit.node_id), task.requirements, fit.shares)

    def give(self, attempt: RunningAttempt) -> None:
        """Frees what an ended attempt had, where nobody reads the node again."""
        room = self.pool.get(attempt.node_id)
        if room is not None:
            self.pool.give(room, attempt, attempt.shares)
            self._has_gained = True

    def refusals(self, task: WaitingTask) -> Counter[Refusal]:
        """How many nodes refuse the task for which reason."""
        return count_refusals(self._candidates_of(task).want, task.account_id, self.pool)

    def _best(
        self, candidates: Candidates, accept: Accept | None, most_price: int | None
    ) -> Fit | None:
        offer = candidates.best(self.pool, self._placement, accept, most_price)
        if offer is None:
            return None
        room = offer.room
        return Fit(room.node.id, candidates.want.shares(room, offer.taken), offer.price)

    def _candidates_of(self, task: WaitingTask) -> Candidates:
        wanted, account_id = task.requirements, task.account_id
        is_personal = wanted.device_milli is not None or account_id in self.named
        key = (wanted, account_id if is_personal else _NOBODY, task.kind)
        known = self._candidates.get(key)
        if known is None:
            if len(self._candidates) >= _MOST_WANTS:
                self._forget_wants()
            known = self._candidates[key] = Candidates(self.want_of(task), key[1])
        return known

    def want_of(self, task: WaitingTask) -> Want:
        """What all share is asked for in nobody's name: no node is nobody's own, nor names it."""
        asker = task.account_id if task.account_id in self.named else _NOBODY
        key = (task.requirements, asker, task.kind)
        want = self._wants.get(key)
        if want is None:
            if len(self._wants) >= _MOST_WANTS:
                self._forget_wants()
            self.ask_for(task.requirements.owners)
            want = self._wants[key] = Want(replace(task, account_id=asker))
        return want

    def _forget_wants(self) -> None:
        self._candidates.clear()
        self._wants.clear()
        self.pool.forget_wants()

    def _suits_elsewhere(self, want: Want, task: WaitingTask) -> bool:
        """Whether a node that has not failed the task could ever take it."""
        return any(room.node.id not in task.failed_on and want.suits(room) for room in self.pool)

    def _room(self, node_id: NodeId) -> NodeCapacity:
        room = self.pool.get(node_id)
        assert room is not None, f"nothing is known of {node_id}"
        return room

    def _prepare(self) -> None:
        """Lets the placement look at pool and mix again, since either has changed a good deal."""
        self._placement.prepare(self.pool.profiles)
        self._rooms_prepared = len(self.pool)
        self._is_due = False

    def _note_change(self, before: NodeCapacity | None, after: NodeCapacity | None) -> None:
        """A node has come, gone or become another one."""
        more = abs(len(self.pool) - self._rooms_prepared)
        self._is_due |= 8 * more > self._rooms_prepared
        gone, come = (_NONE if room is None else room.profile.named for room in (before, after))
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
            # Whoever asked as one like all others, or not, asks anew.
            kept = {key: each for key, each in self._candidates.items() if key[1] not in changed}
            self._candidates = kept


def _accept(
    may_use: Callable[[NodeId], bool] | None, failed_on: frozenset[NodeId]
) -> Accept | None:
    if not failed_on:
        return None if may_use is None else lambda room: may_use(room.node.id)
    if may_use is None:
        return lambda room: room.node.id not in failed_on
    return lambda room: room.node.id not in failed_on and may_use(room.node.id)
