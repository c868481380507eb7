"""Why a node gets no work: what keeps each waiting task from it, and what its owner could do."""

import re
from typing import Any

import msgspec
import pytest

from potluck.decide.explain.node import MOST_GROUPS, NodeExplained
from potluck.decide.explain.owner_sentences import AWAY, reason_sentence
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import AccountShare, FreeNode
from potluck.model.credit import MICRO
from potluck.model.device import Availability, DeviceKind
from potluck.model.ids import NodeId
from potluck.model.node import SandboxStrength
from potluck.model.task import GIB
from tests.decide.builders import ALICE, BOB, cpu, gpu, node, task
from tests.decide.schedulers import NOW, node_with, running, scheduler

SIZES = {"memory_bytes": 16 * GIB, "disk_bytes": 16 * GIB}


def explained(pool: Scheduler, name: str = "n1") -> NodeExplained:
    pool.plan(NOW, 10_000)
    explanation = pool.explain_node(NodeId(name))
    assert explanation is not None
    return explanation


def with_node(*devices: Any, **changes: Any) -> tuple[Scheduler, FreeNode]:
    pool, free_node = scheduler(), node("n1", *devices, **{**SIZES, **changes})
    pool.put_node(free_node)
    return pool, free_node


def price(amount: float) -> int:
    return round(amount * MICRO)


CASES: list[tuple[dict[str, Any], dict[str, Any], str, str | None]] = [
    # (what three tasks want, what the node is, the sentence, what would help)
    (
        {"device_memory_bytes": 24 * GIB, "device_kind": DeviceKind.GPU},
        {"devices": (gpu(memory_bytes=8 * GIB), cpu("c1", free_memory_bytes=64 * GIB))},
        "3 waiting tasks need 24 GiB of device memory, but its devices have 8 GiB.",
        None,
    ),
    (
        {"max_price_micro_per_hour": price(0.3)},
        {"devices": (gpu(price_micro_per_hour=price(0.5)),)},
        "3 waiting tasks pay at most 0.30 an hour, but it costs 0.50.",
        "At a price of 0.30 an hour for a device, it could take 3 of the waiting tasks.",
    ),
    (
        {},
        {"devices": (gpu(kinds=frozenset({"container"})),)},
        "3 waiting tasks are of kinds that its owner does not accept (script).",
        "If its owner accepted every kind of task, it could take 3 of the waiting tasks.",
    ),
    (
        {},
        {"devices": (gpu(allow=frozenset({BOB})),)},
        "3 waiting tasks belong to accounts that its owner does not accept.",
        "If its owner accepted every account's tasks, it could take 3 of the waiting tasks.",
    ),
    (
        {"device_milli": 100, "device_kind": DeviceKind.GPU},
        {"devices": (gpu(least_milli=500), cpu())},
        "3 waiting tasks request 0.1 of a device, but it offers 0.5 or more.",
        "If its GPUs were divided into 10 parts, it could take 3 of the waiting tasks.",
    ),
    (
        {"device_milli": 600, "device_kind": DeviceKind.GPU},
        {"devices": (gpu(least_milli=1000),)},
        "3 waiting tasks request 0.6 of a device, but it offers 1 or more.",
        "If its GPUs were divided into 2 parts, it could take 3 of the waiting tasks.",
    ),
    (
        {"device_milli": 300, "device_kind": DeviceKind.GPU},
        {"devices": (gpu(least_milli=500),)},
        "3 waiting tasks request 0.3 of a device, but it offers 0.5 or more.",
        "If its GPUs were divided into 4 parts, it could take 3 of the waiting tasks.",
    ),
    (
        {},
        {"own_tasks_only": True},
        "3 waiting tasks belong to other accounts, but without a sandbox that limits memory and"
        " processes it runs only its owner's.",
        "With a sandbox that limits memory and processes, it could take 3 of the waiting tasks.",
    ),
    (
        {"cores": 16},
        {},
        "3 waiting tasks need 16 cores, but it offers 8.",
        "With 16 cores instead of 8, it could take 3 of the waiting tasks.",
    ),
    (
        {"memory_bytes": 20 * GIB},
        {},
        "3 waiting tasks need 20 GiB of memory, but it offers 16 GiB.",
        "With 20 GiB of memory instead of 16 GiB, it could take 3 of the waiting tasks.",
    ),
    (
        {"device_count": 4, "device_kind": DeviceKind.GPU},
        {"devices": (gpu("g1"), gpu("g2"), cpu())},
        "3 waiting tasks need 4 devices at once, but it has 2.",
        None,
    ),
    (
        {"labels": ("region=eu", "fast")},
        {"labels": frozenset({"fast"})},
        "3 waiting tasks require labels that it lacks.",
        None,
    ),
    (
        {"sandbox": SandboxStrength.KERNEL},
        {"sandbox": SandboxStrength.NAMESPACES},
        "3 waiting tasks require a sandbox of strength kernel, but it has namespaces.",
        None,
    ),
    (
        {"owners": ("0xa",)},
        {"wallet": "0xb"},
        "3 waiting tasks do not allow this owner's nodes.",
        None,
    ),
    (
        {"kind": "container"},
        {"kinds": frozenset({"script"})},
        "3 waiting tasks are of kinds that it cannot run (container).",
        "If it could run every kind of task, it could take 3 of the waiting tasks.",
    ),
    (
        {"python": "3.11"},
        {"python": "3.12"},
        "3 waiting tasks require Python 3.11, but it runs 3.12.",
        None,
    ),
    (
        {"min_reliability": 0.99},
        {"reliability": 0.8},
        "3 waiting tasks require a reliability of 0.99, but it has 0.80 because attempts were lost"
        " on it.",
        None,
    ),
    ({"device_model": "H100"}, {}, "3 waiting tasks require another model (H100).", None),
    (
        {},
        {"devices": (gpu(free_milli=0),)},
        "3 waiting tasks wait for its devices, which are in use.",
        None,
    ),
    (
        {"failed_on": frozenset({"n1"})},
        {"devices": (gpu(free_milli=0),)},
        "3 waiting tasks were lost or failed on it before and try other nodes first.",
        None,
    ),
]


@pytest.mark.parametrize(("requirements", "offered", "sentence", "change"), CASES)
def test_requirements_are_compared_with_the_offer_of_the_node(
    requirements: dict[str, Any], offered: dict[str, Any], sentence: str, change: str | None
) -> None:
    others = {key: value for key, value in offered.items() if key != "devices"}
    pool, _ = with_node(*offered.get("devices", ()), **others)
    for name in ("t1", "t2", "t3"):
        pool.put_task(task(name, **requirements))
    explanation = explained(pool)
    assert (explanation.sentence, explanation.waiting, explanation.running) == (sentence, 3, 0)
    assert explanation.changes == ([] if change is None else [change])


@pytest.mark.parametrize("availability", list(Availability)[1:])
def test_the_owners_terms_are_the_first_reason(availability: Availability) -> None:
    """However many tasks would not suit anyway."""
    pool, _ = with_node(gpu(availability=availability))
    pool.put_task(task("t1"))
    for name in ("t2", "t3"):
        pool.put_task(task(name, device_kind=DeviceKind.CPU))
    explanation = explained(pool)
    assert explanation.sentence == f"It takes no new work now: {AWAY[availability]}."
    assert [(reason.code, reason.tasks) for reason in explanation.reasons] == [
        ("device_kind", 2),
        ("device_away", 1),
    ]
    assert explanation.changes == [
        "If its devices took work now, it could take 1 of the waiting tasks."
    ]


def test_the_reason_of_most_tasks_comes_first() -> None:
    pool, _ = with_node(gpu(price_micro_per_hour=price(0.5)))
    for number in range(5):
        pool.put_task(task(f"poor{number}", max_price_micro_per_hour=price(0.1 * (number % 3))))
    pool.put_task(task("wide", cores=64))
    explanation = explained(pool)
    assert [(reason.code, reason.tasks) for reason in explanation.reasons] == [
        ("price", 5),
        ("cores", 1),
    ]
    assert explanation.sentence == (
        "5 waiting tasks pay at most 0.00 to 0.20 an hour, but it costs 0.50."
    )
    # Half of them pay as much; with a lower price there would be more.
    assert explanation.changes[0] == (
        "At a price of 0.10 an hour for a device, it could take 3 of the waiting tasks."
    )


def test_no_change_is_suggested_that_another_requirement_rules_out() -> None:
    pool, _ = with_node(gpu(price_micro_per_hour=price(0.5)))
    pool.put_task(task("t1", max_price_micro_per_hour=price(0.1), cores=64))
    assert explained(pool).changes == []


def test_an_empty_queue_and_running_attempts_are_described() -> None:
    pool = scheduler()
    free_node = node_with("n1", 1)
    pool.put_node(free_node)
    assert explained(pool).sentence == "The queue is empty."
    pool.put_task(task("t1"))
    (assignment,) = pool.plan(NOW, 10).assignments
    pool.put_running(running(assignment, ALICE, NOW + 60), NOW)
    explanation = explained(pool)
    assert explanation.sentence == "The queue is empty. It runs 1 attempt now."
    assert explanation.running == 1


def test_credit_and_quota_reasons_are_attributed_to_the_account() -> None:
    pool, _ = with_node(gpu(price_micro_per_hour=price(1)))
    pool.put_account(AccountShare(ALICE, available_micro=0))
    pool.put_account(AccountShare(BOB, available_micro=10**12, most_running_milli=0))
    pool.put_task(task("t1", account_id=ALICE))
    pool.put_task(task("t2", account_id=BOB))
    explanation = explained(pool)
    assert {reason.code for reason in explanation.reasons} == {"credit", "quota"}


def test_a_node_that_is_not_planned_with_is_not_explained() -> None:
    assert scheduler().explain_node(NodeId("n1")) is None


def test_a_sample_of_groups_stands_for_very_many() -> None:
    pool, _ = with_node()
    count = 2 * MOST_GROUPS
    for number in range(count):
        pool.put_task(task(f"t{number:05}", cores=9, disk_bytes=2**20 + number))
    explanation = explained(pool)
    (reason,) = explanation.reasons
    assert (reason.code, reason.tasks) == ("cores", count)
    assert reason.sentence == "About 4,000 waiting tasks need 9 cores, but it offers 8."
    assert explanation.changes == [
        "With 9 cores instead of 8, it could take about 4,000 of the waiting tasks."
    ]


def test_no_more_are_told_than_wait() -> None:
    """The line that stands for others may be the longest."""
    pool, _ = with_node()
    for number in range(MOST_GROUPS + 1):
        for copy in range(2 if number == 0 else 1):
            pool.put_task(task(f"t{number:05}-{copy}", cores=9, disk_bytes=2**20 + number))
    explanation = explained(pool)
    assert explanation.reasons[0].tasks <= explanation.waiting == MOST_GROUPS + 2


def test_only_labels_that_the_pool_knows_are_told() -> None:
    """Others may be words that somebody would not say to strangers."""
    pool, _ = with_node()
    pool.put_task(task("t1", labels=("region=eu", "merger-with-acme")))
    assert explained(pool).sentence == "1 waiting task requires labels that it lacks."
    pool.put_node(node("n2", labels=frozenset({"region=eu"})))
    assert explained(pool).sentence == "1 waiting task requires labels that it lacks (region=eu)."


def test_every_reason_has_a_sentence() -> None:
    free_node = node("n1", cpu(), **SIZES)
    waiting_task = task(
        min_reliability=1.0, device_milli=1, max_price_micro_per_hour=0, labels=("a",), cores=1
    )
    others = ("failed_here", "credit", "quota", "kept", "slow", "in_line")
    for code in [*set(Refusal) - {Refusal.CREDIT}, *others]:
        for count, start in ((1, "1 waiting task "), (2_000, "2,000 waiting tasks ")):
            sentence = reason_sentence(
                code, free_node, [(waiting_task, count)], count, frozenset("a")
            )
            assert sentence.startswith(start) and re.fullmatch(r"[^{}]+\.", sentence)


def test_the_answer_can_be_sent() -> None:
    pool, _ = with_node()
    assert msgspec.json.encode(explained(pool))
