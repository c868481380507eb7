"""Rounds of the scheduler: who is served, what is never given twice, and what is not looked at."""

from collections import Counter

import pytest
from msgspec.structs import replace

from potluck.decide.account import SchedulerAccount
from potluck.decide.explain.sentences import waiting_reason
from potluck.decide.order import ORDERS
from potluck.decide.place_task import TaskPlacement, TaskPlacer
from potluck.decide.queue.task_groups import BlockReason
from potluck.decide.types import AccountShare, Assignment, WaitingTask
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import GIB, ItemRange
from tests.decide.builders import ALICE, BOB, gpu, node, task
from tests.decide.schedulers import NOW, node_with, running, scheduler

MANY = 10_000


def test_free_devices_are_assigned_once() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 2))
    for name in ("t1", "t2", "t3"):
        pool.put_task(task(name, submitted_at=NOW))
    plan = pool.plan(NOW, MANY)
    assert [assignment.task_id for assignment in plan.assignments] == ["t1", "t2"]
    assert {share.device_id for assignment in plan.assignments for share in assignment.shares} == {
        "n1-g0",
        "n1-g1",
    }
    assert [waiting.example.id for waiting in plan.waiting.values()] == ["t3"]
    assert pool.plan(NOW, MANY).assignments == ()


def test_a_reason_is_told_once() -> None:
    pool = scheduler()
    pool.put_task(task("t1"))
    waiting_reasons = pool.plan(NOW, MANY).waiting
    assert [waiting.reason.code for waiting in waiting_reasons.values()] == ["no_nodes"]
    assert pool.plan(NOW + 1, MANY).waiting == {}


def test_a_plan_that_was_cut_off_continues_where_it_stopped() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 5))
    for number in range(5):
        pool.put_task(task(f"t{number}", submitted_at=NOW))
    first = pool.plan(NOW, 2)
    second_plan = pool.plan(NOW, MANY)
    assert (len(first.assignments), first.is_complete) == (2, False)
    assert (len(second_plan.assignments), second_plan.is_complete) == (3, True)


def test_a_slice_ends_when_its_time_is_up_and_the_next_one_continues() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 5))
    for number in range(5):
        pool.put_task(task(f"t{number}", submitted_at=NOW, disk_bytes=2**20 + number))
    time_checks = iter([False, True])
    first = pool.plan(NOW, MANY, lambda: next(time_checks))
    assert (len(first.assignments), first.is_complete) == (2, False)
    slices = [pool.plan(NOW, MANY, lambda: True) for _ in range(3)]
    assert [len(slice_.assignments) for slice_ in slices] == [1, 1, 1], "never without any check"
    assert slices[-1].is_complete


def test_blocked_shapes_are_tried_again_in_slices_too() -> None:
    pool = scheduler()
    for number in range(5):
        pool.put_task(task(f"t{number}", submitted_at=NOW, disk_bytes=2**20 + number))
    assert pool.plan(NOW, MANY).is_complete
    pool.put_node(node_with("n1", 5))
    slices = [pool.plan(NOW, MANY, lambda: True) for _ in range(6)]
    assert sum(len(slice_.assignments) for slice_ in slices) == 5
    assert max(len(slice_.assignments) for slice_ in slices) == 1


def test_an_ended_attempt_frees_its_device_for_the_next_task() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    pool.put_task(task("t1", submitted_at=NOW))
    pool.put_task(task("t2", submitted_at=NOW + 1))
    (assignment,) = pool.plan(NOW + 2, MANY).assignments
    attempt = running(assignment, ALICE, NOW + 100)
    pool.put_running(attempt, NOW + 2)
    assert pool.plan(NOW + 3, MANY).assignments == ()
    pool.give(attempt, NOW + 4)
    assert [assignment.task_id for assignment in pool.plan(NOW + 4, MANY).assignments] == ["t2"]


def test_a_task_that_is_gone_is_not_served() -> None:
    pool = scheduler()
    pool.put_task(task("t1"))
    pool.put_task(task("t2"))
    pool.drop_task(task("t1").id)
    pool.drop_task(task("t9").id)
    pool.put_node(node_with("n1", 2))
    assert [assignment.task_id for assignment in pool.plan(NOW, MANY).assignments] == ["t2"]
    assert pool.waiting_count == 0


def test_a_refused_assignment_no_longer_counts() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, most_running_milli=1000))
    pool.put_node(node_with("n1", 2))
    pool.put_task(task("t1"))
    pool.put_task(task("t2"))
    (assignment,) = pool.plan(NOW, MANY).assignments
    pool.refused(assignment, NOW)
    assert [assignment.task_id for assignment in pool.plan(NOW, MANY).assignments] == ["t2"]


def test_a_quota_holds_an_account_back_and_nobody_else() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, most_running_milli=2000))
    pool.put_node(node_with("n1", 8))
    for number in range(4):
        pool.put_task(task(f"a{number}"))
        pool.put_task(task(f"b{number}", account_id=BOB))
    plan = pool.plan(NOW, MANY)
    served = sorted(assignment.task_id for assignment in plan.assignments)
    assert served == ["a0", "a1", "b0", "b1", "b2", "b3"]
    assert [waiting.reason.code for waiting in plan.waiting.values()] == ["quota"]
    first = next(assignment for assignment in plan.assignments if assignment.task_id == "a0")
    attempt = running(first, ALICE, NOW + 1)
    pool.put_running(attempt, NOW)
    pool.give(attempt, NOW)
    assert [assignment.task_id for assignment in pool.plan(NOW, MANY).assignments] == ["a2"]


def test_a_task_without_credit_waits_with_that_reason() -> None:
    pool = scheduler()
    pool.put_node(node("n1", gpu("g1", price_micro_per_hour=1_000_000)))
    pool.put_account(AccountShare(ALICE, available_micro=999_999))
    pool.put_task(task("t1", run_seconds=3600.0))
    plan = pool.plan(NOW, MANY)
    assert plan.assignments == ()
    assert [waiting.reason.code for waiting in plan.waiting.values()] == ["credit"]
    pool.put_account(AccountShare(ALICE, available_micro=1_000_000))
    (assignment,) = pool.plan(NOW, MANY).assignments
    assert assignment.hold_micro == 1_000_000


def test_the_same_credit_is_not_spent_twice() -> None:
    pool = scheduler()
    pool.put_node(node("n1", gpu("g1", price_micro_per_hour=600_000)))
    pool.put_node(node("n2", gpu("g2", price_micro_per_hour=600_000)))
    pool.put_account(AccountShare(ALICE, available_micro=1_000_000))
    pool.put_task(task("t1", run_seconds=3600.0))
    pool.put_task(task("t2", run_seconds=3600.0))
    assert len(pool.plan(NOW, MANY).assignments) == 1


def test_an_account_with_little_credit_gets_a_cheaper_node() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    pool.put_node(node("n2", gpu("g2", price_micro_per_hour=900_000), free_cores=1))
    pool.put_account(AccountShare(ALICE, available_micro=10))
    pool.put_task(task("t1"))
    assert [assignment.node_id for assignment in pool.plan(NOW, MANY).assignments] == ["n1"]


def test_a_gang_stands_on_several_nodes_or_on_none() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 4))
    pool.put_node(node_with("n2", 2))
    pool.put_task(task("t1", nodes=2, device_count=4))
    pool.put_task(task("t2", device_count=4, submitted_at=NOW))
    plan = pool.plan(NOW, MANY)
    assert [(assignment.task_id, assignment.node_id) for assignment in plan.assignments] == [
        ("t2", "n1")
    ]
    pool.put_node(node_with("n1", 4))
    pool.put_node(node_with("n3", 4))
    gang = pool.plan(NOW, MANY).assignments
    assert sorted((assignment.task_id, assignment.node_id) for assignment in gang) == [
        ("t1", "n1"),
        ("t1", "n3"),
    ]


def test_an_array_is_granted_in_ranges_to_all_that_have_room() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 2))
    pool.put_task(task("t1", pending=(ItemRange(0, 100),), expected_seconds=0.5))
    assignments = pool.plan(NOW, MANY).assignments
    assert [assignment.items for assignment in assignments] == [ItemRange(0, 10), ItemRange(10, 20)]
    assert pool.task(assignments[0].task_id) == task(
        "t1", pending=(ItemRange(20, 100),), expected_seconds=0.5
    )


def test_an_array_leaves_the_queue_when_no_item_is_pending() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 8))
    pool.put_task(task("t1", pending=(ItemRange(0, 1), ItemRange(5, 7)), expected_seconds=60.0))
    assignments = pool.plan(NOW, MANY).assignments
    assert [assignment.items for assignment in assignments] == [
        ItemRange(0, 1),
        ItemRange(5, 6),
        ItemRange(6, 7),
    ]
    assert pool.waiting_count == 0


def test_a_range_is_cut_to_what_the_account_can_hold() -> None:
    pool = scheduler()
    pool.put_node(node("n1", gpu("g1", price_micro_per_hour=3600)))
    pool.put_account(AccountShare(ALICE, available_micro=35))
    pool.put_task(task("t1", pending=(ItemRange(0, 100),), expected_seconds=0.1, run_seconds=10.0))
    (assignment,) = pool.plan(NOW, MANY).assignments
    assert assignment.items == ItemRange(0, 3)
    assert assignment.hold_micro == 30


def test_a_node_for_own_tasks_serves_its_owner() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1, own_tasks_only=True, account_id=BOB))
    pool.put_task(task("a1"))
    assert pool.plan(NOW, MANY).assignments == ()
    pool.put_task(task("b1", account_id=BOB))
    assert [assignment.task_id for assignment in pool.plan(NOW, MANY).assignments] == ["b1"]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_the_same_calls_give_the_same_plans(order: str) -> None:
    def plans() -> list[tuple[Assignment, ...]]:
        pool = scheduler(order)
        for number in range(7):
            pool.put_node(node_with(f"n{number}", 1 + number % 3))
        for number in range(40):
            account = (ALICE, BOB)[number % 2]
            pool.put_task(
                task(
                    f"t{number:02}",
                    account_id=account,
                    device_count=1 + number % 3,
                    priority=number % 4,
                    submitted_at=NOW - number % 11,
                    expected_seconds=float(1 + number % 5),
                )
            )
        return [pool.plan(NOW + seconds, 3).assignments for seconds in range(6)]

    assert plans() == plans()


def test_a_line_without_room_is_skipped_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    for number in range(50):
        pool.put_task(task(f"t{number:02}", submitted_at=NOW))
    pool.plan(NOW, MANY)
    lookups: list[WaitingTask] = []
    find = pool._placer.find

    def watched(
        waiting_task: WaitingTask, account: SchedulerAccount, now: float
    ) -> TaskPlacement | BlockReason:
        lookups.append(waiting_task)
        return find(waiting_task, account, now)

    monkeypatch.setattr(pool._placer, "find", watched)
    for number in range(50, 60):
        pool.put_task(task(f"t{number}", submitted_at=NOW))
        pool.put_task(task(f"b{number}", account_id=BOB, submitted_at=NOW + 1))
    pool.plan(NOW + 1, MANY)
    assert lookups == []
    pool.put_node(node_with("n2", 1))
    assert [assignment.node_id for assignment in pool.plan(NOW + 2, MANY).assignments] == [
        NodeId("n2")
    ]


def test_halts_have_a_reason_each() -> None:
    codes = {
        waiting_reason(block_reason, Counter(), 0).code
        for block_reason in BlockReason
        if block_reason is not BlockReason.NONE
    }
    assert codes == {"no_nodes", "kept", "slow", "credit", "quota"}


def test_a_task_that_is_put_again_replaces_itself() -> None:
    pool = scheduler()
    for end in (9, 8, 7):
        pool.put_task(task("t1", pending=(ItemRange(0, end),), submitted_at=NOW))
        pool.put_task(task("t2", pending=(ItemRange(0, end),), submitted_at=NOW))
    pool.put_node(node_with("n1", 1))
    (assignment,) = pool.plan(NOW, 1).assignments
    assert (assignment.task_id, assignment.items) == ("t1", ItemRange(0, 1))
    assert pool.waiting_count == 2


def test_a_task_in_a_group_that_became_empty_is_explained() -> None:
    """The empty line is only found to be so when a line of the same kind is there again."""
    pool = scheduler()
    pool.put_node(node("n1", gpu("n1-g1", price_micro_per_hour=10**6)))
    pool.put_account(AccountShare(ALICE, available_micro=0))
    pool.put_task(task("gone"))
    pool.plan(NOW, 10)
    pool.put_account(AccountShare(ALICE, available_micro=1))
    pool.drop_task(TaskId("gone"))
    pool.put_task(task("there"))
    pool.plan(NOW + 1, 10)
    explanation = pool.explain(TaskId("there"), NOW + 2)
    assert explanation is not None and explanation.reason.code == "credit"


def test_a_slice_looks_at_a_bounded_number_of_lines_and_the_rest_has_its_turn() -> None:
    """However many different tasks wait that nobody can take, now or when a node gains room."""
    pool = scheduler()
    for number in range(3_000):
        pool.put_task(task(f"t{number:04}", memory_bytes=GIB + 3_000 - number, submitted_at=NOW))
    assert [pool.plan(NOW, 200).is_complete for _ in range(4)] == [False, False, True, True]
    small = replace(node_with("n1", 1), free_memory_bytes=GIB + 1)
    pool.put_node(small)
    plans = [pool.plan(NOW + 1, 200) for _ in range(6)]
    assert [plan.is_complete for plan in plans] == [False, False, False, False, False, True]
    assert [assignment.task_id for plan in plans for assignment in plan.assignments] == ["t2999"]


def test_a_waiting_task_gets_its_turn_while_capacity_is_gained_continuously() -> None:
    pool = scheduler()
    small = replace(node_with("n1", 1), free_memory_bytes=GIB + 1)
    for number in range(3_000):
        pool.put_task(task(f"t{number:04}", memory_bytes=GIB + 3_000 - number, submitted_at=NOW))
    while not pool.plan(NOW, 200).is_complete:
        pass
    assignments: list[Assignment] = []
    for second in range(10):
        pool.drop_node(small.id)
        pool.put_node(small)
        assignments += pool.plan(NOW + 1 + second, 200).assignments
    assert [assignment.task_id for assignment in assignments] == ["t2999"]


def test_a_task_that_changed_its_group_is_not_forgotten_with_the_old_one() -> None:
    """Both lines find no room; the first of them is empty when there is some."""
    pool = scheduler()
    pool.put_task(task("waits", expected_seconds=10.0))
    assert not pool.plan(NOW, 10).assignments
    pool.put_task(task("waits", expected_seconds=10_000.0))
    assert not pool.plan(NOW, 10).assignments
    pool.put_node(node_with("n0", 1))
    (assignment,) = pool.plan(NOW, 10).assignments
    assert assignment.task_id == "waits"


def test_a_host_that_comes_and_goes_has_nobody_elses_lines_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = scheduler()
    for account_id in (ALICE, BOB):
        pool.put_task(task(f"of {account_id}", account_id=account_id, device_count=3))
    pool.plan(NOW, MANY)
    looked_at: list[str] = []
    find = TaskPlacer.find

    def noted(
        self: TaskPlacer, waiting_task: WaitingTask, account: SchedulerAccount, now: float
    ) -> TaskPlacement | BlockReason:
        looked_at.append(waiting_task.account_id)
        return find(self, waiting_task, account, now)

    monkeypatch.setattr(TaskPlacer, "find", noted)
    for number in range(1, 4):
        pool.put_node(node_with("own", 1, own_tasks_only=True, account_id=BOB))
        pool.plan(NOW + number, MANY)
        pool.drop_node(NodeId("own"))
        pool.plan(NOW + number, MANY)
    assert set(looked_at) == {BOB}


def test_a_reliable_node_is_chosen_over_an_identical_unreliable_one() -> None:
    """Whichever of them comes first in the fixed order."""
    for good, bad in (("n1", "n2"), ("n2", "n1")):
        pool = scheduler()
        for name in (good, bad):
            pool.put_node(node_with(name, 1, free_cores=0))
        pool.put_task(task("t1", min_reliability=0.9))
        assert not pool.plan(NOW, 10).assignments
        pool.put_node(node_with(bad, 1, reliability=0.3))
        pool.put_node(node_with(good, 1))
        assert [assignment.node_id for assignment in pool.plan(NOW + 1, 10).assignments] == [good]
