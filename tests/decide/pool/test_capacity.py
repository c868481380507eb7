"""What is free in the pool: the same answers as node by node, and nothing given twice."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.placement import PLACEMENTS
from potluck.decide.pool.bitmap_index import MOST_LEVELS, place_of
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.demand import Demand, Usable
from potluck.decide.pool.feasibility import Fit, Refusal, fit
from potluck.decide.pool.node_capacity import NodeProfile
from potluck.decide.types import FreeNode, RunningAttempt, WaitingTask
from potluck.model.device import Availability, DeviceKind
from potluck.model.ids import AttemptId, DeviceId, NodeId, TaskId
from potluck.model.node import SandboxStrength
from potluck.model.task import GIB
from tests.decide.builders import ALICE, BOB, PASSING, cpu, gpu, node, task


def capacity(*nodes: FreeNode, policy: str = "fragmentation") -> PoolCapacity:
    pool = PoolCapacity(PLACEMENTS[policy]())
    for free_node in nodes:
        pool.put_node(free_node)
    return pool


def whole_node(name: str, *devices: Any, **changes: Any) -> FreeNode:
    """One of which all totals are known."""
    totals = {"memory_bytes": 16 * GIB, "disk_bytes": 16 * GIB}
    return node(name, *devices, **{**totals, **changes})


def taken_node(pool: PoolCapacity, waiting_task: WaitingTask) -> str | None:
    placement = pool.find(waiting_task)
    if placement is None:
        return None
    pool.take(waiting_task, placement)
    return placement.node_id


def attempt(waiting_task: WaitingTask, found: Fit) -> RunningAttempt:
    needs = waiting_task.requirements
    return RunningAttempt(
        id=AttemptId(f"attempt {waiting_task.id}"),
        task_id=waiting_task.id,
        account_id=waiting_task.account_id,
        node_id=found.node_id,
        shares=found.shares,
        cores=needs.cores,
        memory_bytes=needs.memory_bytes,
        disk_bytes=needs.disk_bytes,
        expected_end=0.0,
    )


def test_returned_capacity_is_assigned_again() -> None:
    pool = capacity(whole_node("n1"))
    first, second = task("t1"), task("t2")
    placement = pool.find(first)
    assert placement is not None
    pool.take(first, placement)
    assert pool.find(second) is None
    assert pool.gained() and not pool.gained()
    pool.give(attempt(first, placement))
    assert pool.gained()
    assert pool.find(second) == placement


def test_the_same_node_again_is_no_gain() -> None:
    pool = capacity(whole_node("n1"))
    pool.gained()
    placement = pool.find(task())
    assert placement is not None
    pool.take(task(), placement)
    free_node = pool.node(NodeId("n1"))
    assert free_node is not None and free_node.devices[0].free_milli == 0
    pool.put_node(free_node)
    assert not pool.gained()
    pool.put_node(whole_node("n1"))
    assert pool.gained()


def test_elsewhere_after_a_loss_and_the_same_node_only_if_no_other_could_ever_take_it() -> None:
    waiting_task = task(failed_on=frozenset({"n1"}))
    pool = capacity(whole_node("n1"), whole_node("n2"))
    assert taken_node(pool, waiting_task) == "n2"
    assert pool.find(waiting_task) is None, "n2 is busy, and could take it later"
    pool.drop_node(NodeId("n2"))
    assert taken_node(pool, waiting_task) == "n1"


def test_a_dropped_node_is_not_used() -> None:
    pool = capacity(whole_node("n1"))
    pool.drop_node(NodeId("n1"))
    assert pool.find(task()) is None and pool.refusals(task()) == Counter()


@pytest.mark.parametrize("count", [31, 33, 100, 330])
@pytest.mark.parametrize(
    "requirements", [{}, {"min_reliability": 0.6}, {"device_memory_bytes": 2 * GIB}, {"cores": 99}]
)
def test_as_many_refuse_as_there_are(count: int, requirements: dict[str, Any]) -> None:
    """Also where only some of them are looked at."""
    device = gpu("g", free_milli=0, memory_bytes=4 * GIB)
    pool = capacity(*(whole_node(f"n{number}", device) for number in range(count)))
    assert pool.refusals(task(**requirements)).total() == count
    for number in range(0, count, 3):
        pool.put_node(whole_node(f"n{number}", device, reliability=0.5))
    assert pool.refusals(task(**requirements)).total() == count


def test_placement_respects_permitted_nodes_and_the_maximum_price() -> None:
    dear = whole_node("dear", gpu("d", price_micro_per_hour=9))
    pool = capacity(dear, whole_node("cheap", gpu("c", price_micro_per_hour=5)))
    assert pool.find(task(), 4) is None
    placement = pool.find(task(), 5)
    assert (
        placement is not None
        and placement.node_id == "cheap"
        and placement.price_micro_per_hour == 5
    )
    placement = pool.find(task(), None, lambda node_id: node_id == "dear")
    assert placement is not None and placement.node_id == "dear"


def test_a_device_serves_one_account_at_a_time() -> None:
    pool = capacity(whole_node("n1"))
    assert taken_node(pool, task("a1", account_id=ALICE, device_milli=300)) == "n1"
    assert pool.find(task("b1", account_id=BOB, device_milli=300)) is None
    assert pool.refusals(task("b1", account_id=BOB, device_milli=300)) == {Refusal.DEVICE_SHARED: 1}
    assert taken_node(pool, task("a2", account_id=ALICE, device_milli=300)) == "n1"


def test_a_node_for_its_owner_alone_is_found_by_its_owner_alone() -> None:
    pool = capacity(whole_node("mine", account_id=ALICE, own_tasks_only=True))
    assert pool.find(task(account_id=BOB)) is None
    assert taken_node(pool, task(account_id=ALICE)) == "mine"


def test_a_node_that_comes_later_is_also_for_its_owner_alone() -> None:
    """Whoever asked first for the same must not lend the others its name."""
    pool = capacity(whole_node("everybodys"))
    assert taken_node(pool, task("a1", account_id=ALICE)) == "everybodys"
    pool.put_node(whole_node("mine", account_id=ALICE, own_tasks_only=True))
    assert pool.find(task("b1", account_id=BOB)) is None
    assert taken_node(pool, task("a2", account_id=ALICE)) == "mine"


def test_a_fraction_finds_a_node_that_its_own_account_adds_later() -> None:
    pool = capacity(whole_node("everybodys"))
    first, second = (task(name, account_id=ALICE, device_milli=600) for name in ("a1", "a2"))
    assert taken_node(pool, first) == "everybodys"
    assert pool.find(second) is None
    pool.put_node(whole_node("mine", account_id=ALICE, own_tasks_only=True))
    assert pool.find(replace(second, account_id=BOB)) is None
    assert taken_node(pool, second) == "mine"


def test_a_node_that_is_not_reliable_enough_is_passed_over() -> None:
    pool = capacity(whole_node("n1", reliability=0.5), whole_node("n2", reliability=0.99))
    assert taken_node(pool, task(min_reliability=0.9)) == "n2"
    assert pool.find(task(min_reliability=0.9)) is None


def unreliable_twins() -> list[FreeNode]:
    """Alike, but that the first in the fixed order has lost many attempts."""
    names = sorted(("n1", "n2"), key=lambda name: place_of(NodeId(name), 2**32))
    return [whole_node(names[0], reliability=0.3), whole_node(names[1], reliability=0.99)]


def test_an_unreliable_twin_does_not_stand_for_a_reliable_one() -> None:
    pool, waiting_task = capacity(*unreliable_twins()), task(min_reliability=0.9)
    assert pool.find(waiting_task) is not None
    assert pool.has_capacity(waiting_task) and pool.could_fit(waiting_task)


def test_made_up_figures_do_not_lend_an_unreliable_twin_the_name_of_the_other() -> None:
    pool = capacity(*unreliable_twins())
    for number in range(2 * MOST_LEVELS):
        pool.could_fit(task(min_reliability=0.0001 * (number + 1)))
    placement = pool.find(task(min_reliability=0.9))
    assert placement is not None and placement.node_id == unreliable_twins()[1].id


POLICY_CHOICES = [
    # (policy, the node that it chooses)
    ("pack", "used"),
    ("best-fit", "used"),
    ("spread", "empty"),
    ("cheapest", "cheap"),
]


@pytest.mark.parametrize(("policy", "expected"), POLICY_CHOICES)
def test_policies_choose_as_they_are_named(policy: str, expected: str) -> None:
    used = whole_node("used", gpu("u1", free_milli=0), gpu("u2", price_micro_per_hour=5))
    empty = whole_node("empty", *(gpu(f"e{n}", price_micro_per_hour=5) for n in range(2)))
    cheap = whole_node(
        "cheap", gpu("c1", price_micro_per_hour=1), gpu("c2", price_micro_per_hour=1), free_cores=4
    )
    assert taken_node(capacity(used, empty, cheap, policy=policy), task()) == expected


def test_first_fit_fills_one_node_after_the_other() -> None:
    nodes = [
        whole_node(f"n{number}", *(gpu(f"g{number}-{device}") for device in range(3)))
        for number in range(4)
    ]
    pool = capacity(*nodes, policy="first-fit")
    order = [taken_node(pool, task(f"t{number}")) for number in range(12)]
    assert [order[start : start + 3].count(order[start]) for start in (0, 3, 6, 9)] == [3] * 4


def test_fragmentation_uses_the_hole_that_fits_and_keeps_whole_devices() -> None:
    """A tenth goes beside nine tenths: not onto a device that others could have whole."""
    hole = gpu("hole", free_milli=100, free_memory_bytes=24 * GIB, serves=ALICE)
    nodes = [whole_node(f"n{number}") for number in range(20)]
    pool = capacity(*nodes, whole_node("holey", hole, free_cores=4))
    pool.learn(task().requirements, 100)
    pool.learn(task(device_milli=100).requirements, 10)
    assert taken_node(pool, task(device_milli=100)) == "holey"


def test_fragmentation_keeps_scarce_devices_for_tasks_that_need_them() -> None:
    """Few ask for that model, and one node in twelve has it: the first in the fixed order."""
    names = sorted((f"n{n}" for n in range(12)), key=lambda name: place_of(NodeId(name), 2**32))
    models = ["Rare", *["Plain"] * 11]
    pool = capacity(
        *(
            whole_node(name, gpu(name, model=model))
            for name, model in zip(names, models, strict=True)
        )
    )
    pool.learn(task().requirements, 95)
    pool.learn(task(device_model="Rare").requirements, 5)
    node_ids = [taken_node(pool, task(f"t{n}")) for n in range(11)]
    assert sorted(map(str, node_ids)) == sorted(names[1:])
    assert taken_node(pool, task("rare", device_model="Rare")) == names[0]


def test_fragmentation_strands_no_gpus_for_want_of_cores() -> None:
    """Work that needs no GPU goes where there are more cores than the GPUs can use."""
    narrow = [
        whole_node(f"n{n}", *(gpu(f"n{n}g{d}") for d in range(4)), cpu(f"n{n}c"), cores=8)
        for n in range(4)
    ]
    wide = [
        whole_node(f"w{n}", gpu(f"w{n}g"), cpu(f"w{n}c"), cores=64, free_cores=64) for n in range(4)
    ]
    pool = capacity(*narrow, *wide)
    pool.learn(task(cores=2, device_kind=DeviceKind.GPU).requirements, 100)
    for number in range(8):
        node_id = taken_node(pool, task(f"t{number}", cores=8, device_kind=DeviceKind.CPU))
        assert str(node_id).startswith("w")


RELIABILITIES = [0.5, 0.8, 0.9]


def some_task(rng: Random, number: int) -> WaitingTask:
    part = rng.choice([None, None, 100, 300, 470, 1000])
    return task(
        f"t{number}",
        account_id=rng.choice([ALICE, BOB]),
        device_kind=rng.choice([None, DeviceKind.GPU, DeviceKind.CPU]),
        device_count=1 if part else rng.randint(1, 3),
        device_milli=part,
        device_memory_bytes=rng.choice([0, GIB, 20 * GIB]),
        device_model=rng.choice([None, None, "4090", "A100|CPU"]),
        max_price_micro_per_hour=rng.choice([None, None, 0, 20]),
        min_reliability=rng.choice([None, None, 0.8, 0.9]),
        labels=rng.choice([(), (), ("fast",)]),
        shares_device=rng.random() < 0.5,
        cores=rng.randint(1, 9),
        memory_bytes=rng.randint(1, 12) * GIB,
        failed_on=frozenset(rng.choice([(), (), ("n0",), ("n0", "n1")])),
        kind=rng.choice(["script", "script", "container"]),
        owners=rng.choice([(), (), (), ("0xa",), ("0xa", "0xb"), ("0xd",)]),
        python=rng.choice([None, None, "3.11", ">=3.12"]),
    )


def some_twin(rng: Random, number: int, like: FreeNode) -> FreeNode:
    """A node like another one, but for how reliable it is, and perhaps whose."""
    name = f"n{number}"
    devices = [
        replace(device, id=DeviceId(f"{name}-{index}")) for index, device in enumerate(like.devices)
    ]
    return replace(
        like,
        id=NodeId(name),
        devices=tuple(devices),
        reliability=rng.choice(RELIABILITIES),
        wallet=rng.choice([like.wallet, like.wallet, "0xa", "0xb"]),
    )


def some_terms(rng: Random) -> dict[str, Any]:
    """Mostly none: what nobody may have tells nothing of the rest."""
    choices: dict[str, list[Any]] = {
        "availability": [Availability.PAUSED, Availability.SICK],
        "kinds": [frozenset({"script"}), frozenset({"container", "function"})],
        "least_milli": [250, 1000],
        "allow": [frozenset({ALICE}), frozenset({BOB}), frozenset()],
        "deny": [frozenset({ALICE}), frozenset({ALICE, BOB})],
    }
    return {key: rng.choice(values) for key, values in choices.items() if rng.random() < 0.12}


def some_node(rng: Random, number: int) -> FreeNode:
    name = f"n{number}"
    devices = [
        rng.choice([gpu, gpu, cpu])(
            f"{name}-{index}",
            price_micro_per_hour=rng.choice([0, 20, 30]),
            shares_accounts=rng.random() < 0.5,
            is_partition=rng.random() < 0.2,
            **some_terms(rng),
        )
        for index in range(rng.randint(1, 4))
    ]
    return whole_node(
        name,
        *devices,
        account_id=rng.choice([ALICE, BOB]),
        own_tasks_only=rng.random() < 0.3,
        own_images_only=rng.random() < 0.3,
        reliability=rng.choice(RELIABILITIES),
        labels=rng.choice([frozenset(), frozenset({"fast"})]),
        wallet=rng.choice(["0xa", "0xb", "0xc"]),
        python=rng.choice(["3.11", "3.11", "3.12"]),
        kinds=frozenset(rng.choice([("script",), ("script", "container")])),
        containers=rng.choice([None, SandboxStrength.NAMESPACES]),
    )


@pytest.mark.parametrize("policy", sorted(PLACEMENTS))
@pytest.mark.parametrize("seed", range(25))
def test_the_same_answers_as_node_by_node(policy: str, seed: int) -> None:
    """Through takes and gives, and nodes that come, go and change, and of which many are alike.

    Found if and only if some node would do, and never over-committed.

    `find` is believed in nothing: each answer is compared with what `feasible.fit` says of every
    node as it is at that moment.
    """
    rng = Random(seed)
    nodes: list[FreeNode] = []
    for number in range(rng.randint(0, 6)):
        is_twin = nodes and rng.random() < 0.5
        twin = some_twin(rng, number, rng.choice(nodes)) if is_twin else None
        nodes.append(twin or some_node(rng, number))
    node_count = len(nodes)
    pool = capacity(*nodes, policy=policy)
    live: list[tuple[WaitingTask, Fit]] = []
    kinds = [some_task(rng, number) for number in range(6)]
    for number in range(30):
        waiting_task = replace(rng.choice(kinds), id=TaskId(f"t{number}"))
        pool.learn(waiting_task.requirements)
        is_asked_first = rng.random() < 0.5
        has_capacity = is_asked_first and pool.has_capacity(waiting_task)
        could_fit = pool.could_fit(waiting_task)
        placement = pool.find(waiting_task)
        assert not is_asked_first or has_capacity == (placement is not None)
        assert could_fit or placement is None
        now = {free_node.id: free_node for free_node in pool.nodes()}
        outcomes = {node_id: fit(waiting_task, free_node) for node_id, free_node in now.items()}
        would = {node_id for node_id, outcome in outcomes.items() if isinstance(outcome, Fit)}
        refusals = Counter(a for a in outcomes.values() if isinstance(a, Refusal))
        assert pool.refusals(waiting_task) == refusals
        permitted = _permitted(waiting_task, would, outcomes)
        assert (placement is not None) == bool(permitted)
        if placement is not None:
            assert placement.node_id in permitted
            _check(waiting_task, placement, now[placement.node_id])
            pool.take(waiting_task, placement)
            live.append((waiting_task, placement))
        if live and rng.random() < 0.4:
            pool.give(attempt(*live.pop(rng.randrange(len(live)))))
        if rng.random() < 0.1:
            nodes.append(some_node(rng, node_count))
            pool.put_node(nodes[-1])
            node_count += 1
        if nodes and rng.random() < 0.1:
            removed_id = nodes.pop(rng.randrange(len(nodes))).id
            pool.drop_node(removed_id)
            live = [
                (placed_task, placed_fit)
                for placed_task, placed_fit in live
                if placed_fit.node_id != removed_id
            ]
        if nodes and rng.random() < 0.1:
            rated = rng.randrange(len(nodes))
            free_node = pool.node(nodes[rated].id)
            assert free_node is not None
            reliability = rng.choice(RELIABILITIES)
            nodes[rated] = replace(nodes[rated], reliability=reliability)
            pool.put_node(replace(free_node, reliability=reliability))
        if nodes and rng.random() < 0.1:
            free_node = pool.node(rng.choice(nodes).id)
            assert free_node is not None
            pool.put_node(free_node)
        change_terms_at_times(rng, nodes, pool)
    for waiting_task, placement in live:
        pool.untake(waiting_task, placement)
    assert {free_node.id: free_node for free_node in pool.nodes()} == {
        free_node.id: _as_read(free_node) for free_node in nodes
    }


NO_TERMS: dict[str, Any] = {
    "availability": Availability.AVAILABLE,
    "kinds": frozenset(),
    "least_milli": 1,
    "allow": None,
    "deny": frozenset(),
}


def change_terms_at_times(rng: Random, nodes: list[FreeNode], pool: PoolCapacity) -> None:
    if not nodes or rng.random() > 0.2:
        return
    changed = rng.randrange(len(nodes))
    free_node = pool.node(nodes[changed].id)
    assert free_node is not None
    device_terms = [{**NO_TERMS, **some_terms(rng)} for _ in free_node.devices]
    nodes[changed] = with_terms(nodes[changed], device_terms)
    pool.put_node(with_terms(free_node, device_terms))


def with_terms(free_node: FreeNode, device_terms: list[dict[str, Any]]) -> FreeNode:
    """As its owner wants it from now on, whatever runs there."""
    devices = [
        replace(device, **terms)
        for device, terms in zip(free_node.devices, device_terms, strict=True)
    ]
    return replace(free_node, devices=tuple(devices))


def _as_read(free_node: FreeNode) -> FreeNode:
    devices = [
        replace(device, free_memory_bytes=device.memory_bytes) for device in free_node.devices
    ]
    return replace(free_node, devices=tuple(devices))


def _permitted(
    waiting_task: WaitingTask, would: set[NodeId], outcomes: dict[NodeId, Fit | Refusal]
) -> set[NodeId]:
    others = would - waiting_task.failed_on
    could_others = any(
        isinstance(outcome, Fit) or outcome in PASSING
        for node_id, outcome in outcomes.items()
        if node_id not in waiting_task.failed_on
    )
    return others if others or could_others else would


def _check(waiting_task: WaitingTask, placement: Fit, free_node: FreeNode) -> None:
    needs = waiting_task.requirements
    devices = {device.id: device for device in free_node.devices}
    assert len({share.device_id for share in placement.shares}) == needs.device_count
    for share in placement.shares:
        device = devices[share.device_id]
        alone = fit(waiting_task, replace(free_node, devices=(device,)))
        assert share.milli <= device.free_milli
        assert needs.device_count > 1 or isinstance(alone, Fit)
    price = (
        sum(devices[s.device_id].price_micro_per_hour * s.milli for s in placement.shares) // 1000
    )
    assert placement.price_micro_per_hour == price


def test_profiles_of_a_node_are_dropped_with_it() -> None:
    """One that announces itself again and again as something else does not fill the memory."""
    pool = capacity(whole_node("n1"))
    for number in range(50):
        pool.put_node(whole_node("n2", disk_bytes=(17 + number) * GIB))
        pool.find(task())
        assert len(pool.pool.profiles) == 2
    demand = pool.demand_of(task())
    assert len(demand.usable) <= 2
    pool.drop_node(NodeId("n2"))
    assert len(pool.pool.profiles) == 1


def test_a_node_that_enters_is_not_compared_with_thousands_of_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, comparisons = capacity(whole_node("n1", free_cores=0)), 0
    waiting_tasks = [task(f"t{number}", memory_bytes=GIB + number) for number in range(2000)]
    for waiting_task in waiting_tasks:
        assert not pool.could_fit(waiting_task)
    devices = Demand.devices

    def counted(want: Demand, profile: NodeProfile) -> tuple[Usable, ...] | Refusal:
        nonlocal comparisons
        comparisons += 1
        return devices(want, profile)

    monkeypatch.setattr(Demand, "devices", counted)
    for number in range(2, 12):
        pool.put_node(whole_node(f"n{number}", disk_bytes=number * GIB, free_cores=0))
    pool.put_node(whole_node("free", labels=frozenset({"new"})))
    assert comparisons < 1000
    assert all(pool.could_fit(waiting_task) for waiting_task in waiting_tasks)


def test_profiles_are_dropped_also_for_forgotten_demands() -> None:
    pool = capacity(whole_node("n1"))
    waiting_tasks = [task(f"t{number}", memory_bytes=GIB + number) for number in range(400)]
    for number in range(2, 22):
        pool.put_node(whole_node(f"n{number}", disk_bytes=(17 + number) * GIB))
        pool.drop_node(NodeId(f"n{number - 1}"))
        assert all(pool.could_fit(waiting_task) for waiting_task in waiting_tasks)
    assert max(len(pool.demand_of(waiting_task).usable) for waiting_task in waiting_tasks) <= 2


def test_slots_are_reassigned_when_there_are_many_more_nodes() -> None:
    nodes = [whole_node(f"n{number}") for number in range(200)]
    pool = capacity(*nodes[:10])
    assert pool.find(task()) is not None
    for free_node in nodes[10:]:
        pool.put_node(free_node)
    assert len({taken_node(pool, task(f"t{number}")) for number in range(200)}) == 200
    assert pool.find(task()) is None


def test_a_node_that_enters_is_checked_for_a_demand_only_when_that_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A registration costs the same however many different tasks wait."""
    pool = capacity(whole_node("n1"))
    waiting_tasks = [task(f"t{number}", disk_bytes=GIB + number) for number in range(100)]
    for waiting_task in waiting_tasks:
        assert pool.could_fit(waiting_task)
    checked: list[Demand] = []
    original_look = Demand._look

    def count(demand: Demand, profile: NodeProfile) -> tuple[Usable, ...] | Refusal:
        checked.append(demand)
        return original_look(demand, profile)

    monkeypatch.setattr(Demand, "_look", count)
    for number in range(3):
        pool.put_node(whole_node("n2", gpu("g2", price_micro_per_hour=number)))
    assert checked == []
    assert pool.could_fit(waiting_tasks[0])
    assert len(checked) == 1, "the node as it is now, not as it was in between"


def test_demands_follow_nodes_that_join_leave_and_are_replaced() -> None:
    rng = Random(7)
    pool, nodes = capacity(), dict[str, FreeNode]()
    waiting_tasks = [
        task(f"t{gigabytes}", device_memory_bytes=gigabytes * GIB) for gigabytes in (8, 16, 24)
    ]
    for _ in range(400):
        name = f"n{rng.randrange(6)}"
        if rng.random() < 0.5:
            card = gpu(f"{name}-g", memory_bytes=rng.choice((8, 16, 24)) * GIB)
            nodes[name] = whole_node(name, card)
            pool.put_node(nodes[name])
        elif nodes.pop(name, None) is not None:
            pool.drop_node(NodeId(name))
        waiting_task = rng.choice(waiting_tasks)
        fits = any(isinstance(fit(waiting_task, free_node), Fit) for free_node in nodes.values())
        assert (pool.find(waiting_task) is not None) is fits


def test_accounts_are_planned_apart_where_others_have_their_disk_in_memory() -> None:
    """Otherwise the answer for the first account would be that for all."""
    pool = capacity(whole_node("mine", account_id=ALICE, others_disk_in_memory=True))
    waiting_task = task(disk_bytes=8 * GIB, memory_bytes=GIB)
    for account_id in (BOB, ALICE, BOB):
        placement = pool.find(replace(waiting_task, account_id=account_id))
        assert (placement is not None) == (account_id == ALICE)
