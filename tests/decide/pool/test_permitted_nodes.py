"""A permission is asked about a node once, and again only when something may have changed there."""

import pytest

from potluck.decide.placement import PLACEMENTS
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.permission import NodePermission
from potluck.model.ids import NodeId
from tests.decide.builders import ALICE, BOB, node, task

NODES = [NodeId(f"n{number}") for number in range(6)]
LIMITED = frozenset(NODES[:4])


class Ledger:
    """What is refused, and about which nodes the permissions were asked."""

    def __init__(self) -> None:
        self.refused = {NODES[0], NODES[1]}
        self.changed: list[NodeId] = []
        self.asked: list[NodeId] = []

    def change(self, node_id: NodeId) -> None:
        self.refused ^= {node_id}
        self.changed.append(node_id)

    def take_asked(self) -> list[NodeId]:
        node_ids, self.asked = sorted(self.asked), []
        return node_ids


class Recorded(NodePermission):
    __slots__ = ("_ledger",)

    def __init__(
        self, ledger: Ledger, end: float = 1.0, stamp: object = None, is_of_one_task: bool = False
    ) -> None:
        self._ledger = ledger
        self.end, self.stamp, self.is_of_one_task = end, stamp, is_of_one_task
        self.limited, self.changes = LIMITED, len(ledger.changed)

    def __call__(self, node_id: NodeId) -> bool:
        self._ledger.asked.append(node_id)
        return node_id not in self._ledger.refused

    def changed_since(self, changes: int) -> list[NodeId]:
        return self._ledger.changed[changes : self.changes]


@pytest.fixture
def pool() -> PoolCapacity:
    capacity = PoolCapacity(PLACEMENTS["fragmentation"]())
    for name in NODES:
        capacity.put_node(node(name))
    return capacity


def found(pool: PoolCapacity, permission: Recorded, account_id: str = ALICE) -> set[NodeId]:
    """All nodes where copies of a task with a fraction would run, one after the other."""
    waiting_task = task(account_id=account_id, device_milli=600)
    fits, placement = [], pool.find(waiting_task, None, permission)
    while placement is not None:
        fits.append(pool.take(waiting_task, placement))
        placement = pool.find(waiting_task, None, permission)
    for fit in fits:
        pool.untake(waiting_task, fit)
    return {fit.node_id for fit in fits}


def test_only_nodes_that_may_refuse_are_asked_and_each_once(pool: PoolCapacity) -> None:
    ledger = Ledger()
    assert found(pool, Recorded(ledger)) == {*NODES} - ledger.refused
    assert ledger.take_asked() == sorted(LIMITED)
    assert found(pool, Recorded(ledger)) == {*NODES} - ledger.refused
    assert not ledger.take_asked()


def test_accounts_with_equal_requirements_share_the_answers(pool: PoolCapacity) -> None:
    ledger = Ledger()
    found(pool, Recorded(ledger), ALICE)
    ledger.take_asked()
    assert found(pool, Recorded(ledger), BOB) == {*NODES} - ledger.refused
    assert not ledger.take_asked()


def test_only_a_node_that_has_changed_is_asked_again(pool: PoolCapacity) -> None:
    ledger = Ledger()
    found(pool, Recorded(ledger))
    ledger.take_asked()
    for changed in (NODES[0], NODES[3]):
        ledger.change(changed)
        assert found(pool, Recorded(ledger)) == {*NODES} - ledger.refused
        assert ledger.take_asked() == [changed]


@pytest.mark.parametrize("other", [{"end": 2.0}, {"stamp": "later"}, {"is_of_one_task": True}])
def test_every_node_is_asked_again_when_the_request_may_differ(
    pool: PoolCapacity, other: dict[str, object]
) -> None:
    ledger = Ledger()
    found(pool, Recorded(ledger))
    ledger.take_asked()
    ledger.refused = {NODES[2]}
    assert found(pool, Recorded(ledger, **other)) == {*NODES} - ledger.refused  # type: ignore[arg-type]
    assert set(ledger.take_asked()) == LIMITED


def test_answers_are_forgotten_when_nodes_get_other_slots(pool: PoolCapacity) -> None:
    ledger = Ledger()
    found(pool, Recorded(ledger))
    others = {NodeId(f"other{number}") for number in range(60)}
    for name in sorted(others):
        pool.put_node(node(name))
    assert found(pool, Recorded(ledger)) == ({*NODES} | others) - ledger.refused
