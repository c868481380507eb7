"""Why a task waits: who refuses it, what would help, which in line it is, and when it may start."""

import re

import pytest

from potluck.decide.explain.sentences import Explained, refusal_sentence
from potluck.decide.explain.suggestions import MOST_KINDS, suggest_changes
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.reservations.forecast import StartRates
from potluck.decide.scheduler import Scheduler
from potluck.model.credit import MICRO
from potluck.model.device import Availability
from potluck.model.ids import TaskId
from potluck.model.task import GIB
from tests.decide.builders import ALICE, BOB, cpu, gpu, node, task
from tests.decide.schedulers import NOW, node_with, running, scheduler


def explained(pool: Scheduler, name: str, now: float = NOW) -> Explained:
    pool.plan(now, 10_000)
    explanation = pool.explain(TaskId(name), now)
    assert explanation is not None
    return explanation


def test_every_refusal_has_a_sentence() -> None:
    for refusal in Refusal:
        assert re.match(
            "1 node (has|runs|lacks|costs|takes|is|cannot|does not) ", refusal_sentence(refusal, 1)
        )
        assert re.match(
            "3 nodes (have|run|lack|cost|take|are|cannot|do not) ", refusal_sentence(refusal, 3)
        )


def test_a_task_that_does_not_wait_has_no_explanation() -> None:
    assert scheduler().explain(TaskId("t1"), NOW) is None


def test_nodes_are_counted_by_what_they_refuse_it_for() -> None:
    pool = scheduler()
    pool.put_node(node("n1", cpu("c1")))
    pool.put_node(node("n2", cpu("c2")))
    pool.put_node(node("n3", gpu("g3", memory_bytes=8 * GIB)))
    pool.put_task(task("t1", device_kind="gpu", device_memory_bytes=24 * GIB))
    explanation = explained(pool, "t1")
    assert explanation.nodes == 3
    assert explanation.refusals == {Refusal.DEVICE_KIND: 2, Refusal.DEVICE_MEMORY: 1}
    assert explanation.reason.code == "device_kind"
    assert explanation.forecast is None


def price(amount: float) -> int:
    return round(amount * MICRO)


WOULD_HELP = [
    # (what the task wants, what the nodes are, the sentence)
    (
        {"max_price_micro_per_hour": price(0.1)},
        [node(f"n{i}", gpu(price_micro_per_hour=price(0.4))) for i in range(3)],
        "3 nodes would take it with a price ceiling of 0.40 an hour instead of 0.10.",
    ),
    (
        {"device_memory_bytes": 24 * GIB},
        [node(f"n{i}", gpu(memory_bytes=8 * GIB)) for i in range(2)],
        "2 nodes would take it if it requested 8 GiB of device memory instead of 24 GiB.",
    ),
    (
        {"device_count": 4},
        [node("n1", gpu("a"), gpu("b"))],
        "1 node would take it if it requested 2 devices on one node instead of 4.",
    ),
    (
        {"device_model": "A100"},
        [node("n1")],
        "1 node would take it if it did not require the model A100.",
    ),
    (
        {"owners": ("0xa",)},
        [node("n1", wallet="0xb"), node("n2", wallet="0xc")],
        "2 nodes would take it if it allowed nodes of any owner.",
    ),
    ({"python": "3.11"}, [node("n1")], "1 node would take it if it did not require Python 3.11."),
    (
        {"labels": ("region=eu", "fast")},
        [node("n1", labels=frozenset({"fast"}))],
        "1 node would take it if it did not require the label region=eu.",
    ),
    (
        {"min_reliability": 0.95},
        [node("n1", reliability=0.8)],
        "1 node would take it if it accepted a reliability of 0.80 instead of 0.95.",
    ),
    ({"cores": 16}, [node("n1")], "1 node would take it if it requested 8 cores instead of 16."),
]


@pytest.mark.parametrize(("requirements", "nodes", "sentence"), WOULD_HELP)
def test_suggested_changes(requirements: dict, nodes: list, sentence: str) -> None:  # type: ignore[type-arg]
    full = [
        node(
            free_node.id,
            *free_node.devices,
            labels=free_node.labels,
            reliability=free_node.reliability,
            memory_bytes=16 * GIB,
            disk_bytes=16 * GIB,
        )
        for free_node in nodes
    ]
    assert suggest_changes(task("t1", **requirements), [(free_node, 1) for free_node in full]) == [
        *_models_on_offer(requirements),
        sentence,
    ]


def _models_on_offer(requirements: dict) -> list[str]:  # type: ignore[type-arg]
    """Named if the task asks for a model that is unlike that of the builders."""
    model = requirements.get("device_model")
    offered = f"No device on offer matches the model {model}; on offer: NVIDIA GeForce RTX 4090."
    return [] if model is None else [offered]


def test_a_python_that_no_node_has() -> None:
    nodes = [node("n1", python="3.12.1"), node("n2", python="3.9.2", more_pythons=("3.12.4", "?"))]
    suggestions = suggest_changes(task("t1", python="==9.9.*"), [(n, 1) for n in nodes])
    assert suggestions == [
        "No node has Python ==9.9.*; versions on offer: 3.9, 3.12.",
        "2 nodes would take it if it did not require Python ==9.9.*.",
    ]
    one_has_it = suggest_changes(task("t1", python="3.9", cores=99), [(n, 1) for n in nodes])
    assert not any("on offer" in sentence for sentence in one_has_it)


def test_a_model_that_was_mistyped() -> None:
    nodes = [node("n1", gpu(model="NVIDIA GeForce RTX 4090")), node("n2", gpu(model="Radeon"))]
    suggestions = suggest_changes(task("t1", device_model="rtx 4009"), [(n, 1) for n in nodes])
    assert suggestions == [
        "No device on offer matches the model rtx 4009; similar: NVIDIA GeForce RTX 4090.",
        "2 nodes would take it if it did not require the model rtx 4009.",
    ]


def test_a_figure_is_the_nearest_that_brings_some_nodes() -> None:
    prices = [0.2, 0.3, 0.3, 0.9]
    kinds = [
        (
            node(
                f"n{index}",
                gpu(price_micro_per_hour=price(price_units)),
                memory_bytes=16 * GIB,
                disk_bytes=16 * GIB,
            ),
            1,
        )
        for index, price_units in enumerate(prices)
    ]
    assert suggest_changes(task("t1", max_price_micro_per_hour=price(0.1)), kinds) == [
        "3 nodes would take it with a price ceiling of 0.30 an hour instead of 0.10."
    ]


def test_a_larger_share_is_suggested_where_a_small_one_is_not_offered() -> None:
    sizes = {"memory_bytes": 16 * GIB, "disk_bytes": 16 * GIB}
    kinds = [
        (node(f"n{milli}", gpu(least_milli=milli), **sizes), 1) for milli in (250, 250, 500, 1000)
    ]
    assert suggest_changes(task("t1", device_milli=100), kinds) == [
        "3 nodes would take it if it requested 0.5 of a device instead of 0.1."
    ]


def test_no_change_is_suggested_for_devices_that_are_away_or_deny_the_task() -> None:
    devices = [
        gpu(availability=Availability.OUTSIDE_HOURS),
        gpu(deny=frozenset({ALICE})),
        gpu(kinds=frozenset({"container"})),
    ]
    kinds = [
        (node(f"n{index}", device, memory_bytes=16 * GIB, disk_bytes=16 * GIB), 1)
        for index, device in enumerate(devices)
    ]
    assert suggest_changes(task("t1", account_id=ALICE), kinds) == []


def test_a_price_ceiling_is_for_all_that_is_taken() -> None:
    """Half of a processor; and no digit is lost."""
    processor = cpu(price_micro_per_hour=price(3.0) + 2)
    kinds = [(node("n1", processor, cores=2, memory_bytes=16 * GIB, disk_bytes=16 * GIB), 1)]
    waiting_task = task("t1", device_kind=None, cores=1, max_price_micro_per_hour=0)
    assert suggest_changes(waiting_task, kinds) == [
        "1 node would take it with a price ceiling of 1.500001 an hour instead of 0.00."
    ]


TWO_WALLS = [
    # (what the task wants, the sentence)
    (
        {"cores": 64, "memory_bytes": 900 * GIB},
        "2 nodes would take it if it requested 8 cores instead of 64"
        " and if it requested 16 GiB of memory instead of 900 GiB.",
    ),
    (
        {"owners": ("0xa",), "device_model": "MI300"},
        "2 nodes would take it if it allowed nodes of any owner"
        " and if it did not require the model MI300.",
    ),
    (
        {"device_vendor": "AMD", "device_model": "MI300"},
        "2 nodes would take it if it did not require the vendor AMD"
        " and if it did not require the model MI300.",
    ),
    (
        {"labels": ("quick", "region=eu"), "device_count": 3, "cores": 9},
        "1 node would take it if it did not require the label region=eu"
        " and if it requested 1 device on one node instead of 3"
        " and if it requested 8 cores instead of 9.",
    ),
]


@pytest.mark.parametrize(("requirements", "sentence"), TWO_WALLS)
def test_of_two_obstacles_the_change_for_the_nearest_nodes_is_suggested(
    requirements: dict,  # type: ignore[type-arg]
    sentence: str,
) -> None:
    sizes = {"memory_bytes": 16 * GIB, "disk_bytes": 16 * GIB}
    quick = node("n1", gpu("g1"), labels=frozenset({"quick"}), **sizes)
    others = [node("n2", gpu("g2"), **sizes), node("n3", gpu("g3"), own_tasks_only=True, **sizes)]
    kinds = [(quick, 1), *((other, 1) for other in others)]
    assert suggest_changes(task("t1", **requirements), kinds) == [
        *_models_on_offer(requirements),
        sentence,
    ]


WALLS_THAT_MEET = [
    # (what the task wants, the sentences): two cores, 2.00 an hour for both
    (
        {"cores": 2, "max_price_micro_per_hour": price(1)},
        [
            "1 node would take it with a price ceiling of 2.00 an hour instead of 1.00.",
            "1 node would take it if it requested 1 core instead of 2.",
        ],
    ),
    (
        {"cores": 3, "max_price_micro_per_hour": price(1)},
        ["1 node would take it if it requested 1 core instead of 3."],
    ),
    (
        {"cores": 3, "max_price_micro_per_hour": price(0.5)},
        [
            "1 node would take it if it requested 2 cores instead of 3"
            " and with a price ceiling of 2.00 an hour instead of 0.50."
        ],
    ),
]


@pytest.mark.parametrize(("requirements", "sentences"), WALLS_THAT_MEET)
def test_suggestions_include_the_price(
    requirements: dict,  # type: ignore[type-arg]
    sentences: list[str],
) -> None:
    sizes = {"memory_bytes": 16 * GIB, "disk_bytes": 16 * GIB}
    matching_node = node("n1", cpu(price_micro_per_hour=price(2)), cores=2, **sizes)
    assert (
        suggest_changes(task("t1", device_kind=None, **requirements), [(matching_node, 1)])
        == sentences
    )


def test_several_devices_are_advised_only_as_far_as_their_price_allows() -> None:
    devices = [gpu(f"g{number}", price_micro_per_hour=price(1)) for number in range(4)]
    matching_node = node("n1", *devices, memory_bytes=16 * GIB, disk_bytes=16 * GIB)
    waiting_task = task("t1", device_count=5, max_price_micro_per_hour=price(3))
    assert suggest_changes(waiting_task, [(matching_node, 1)]) == [
        "1 node would take it if it requested 3 devices on one node instead of 5."
    ]


def test_figures_that_are_nearly_the_same_are_told_apart_and_never_rounded_up() -> None:
    almost = node("n1", memory_bytes=16 * GIB - GIB // 1024, disk_bytes=16 * GIB)
    (change,) = suggest_changes(task("t1", memory_bytes=16 * GIB), [(almost, 1)])
    assert "15.9 GiB of memory instead of 16 GiB" in change
    (change,) = suggest_changes(task("t1", memory_bytes=16 * GIB - 1024**2 // 2), [(almost, 1)])
    assert "15.999 GiB of memory instead of 15.9995 GiB" in change


def test_no_change_is_suggested_where_none_helps() -> None:
    assert suggest_changes(task("t1"), [(node("n1", own_tasks_only=True), 1)]) == []


def test_suggestions_say_more_nodes_where_some_accept_the_task_already() -> None:
    kinds = [(node("n1", memory_bytes=GIB, disk_bytes=16 * GIB), 1), (node_with("n2", 1), 2)]
    assert suggest_changes(task("t1", memory_bytes=2 * GIB), kinds) == [
        "1 more node would take it if it requested 1 GiB of memory instead of 2 GiB."
    ]


def test_a_sample_of_nodes_stands_for_very_many_kinds() -> None:
    kinds = [
        (node(f"n{number}", memory_bytes=16 * GIB, disk_bytes=16 * GIB + number), 1)
        for number in range(10 * MOST_KINDS)
    ]
    (change,) = suggest_changes(task("t1", cores=64), kinds)
    assert change == "About 10000 nodes would take it if it requested 8 cores instead of 64."


def test_no_change_is_suggested_if_the_task_fits() -> None:
    assert suggest_changes(task("t1"), [(node_with("n1", 1), 1)]) == []


def test_the_place_in_line_counts_those_before() -> None:
    pool = scheduler("fair")
    for number in range(5):
        pool.put_task(task(f"a{number}", submitted_at=NOW - 10 + number))
        pool.put_task(task(f"b{number}", account_id=BOB, submitted_at=NOW - 5 + number))
    assert explained(pool, "a0").position == 1
    assert explained(pool, "b0").position == 2
    assert explained(pool, "a4").position == 5
    assert explained(pool, "b4").position == 10


def test_the_first_in_line_starts_when_something_ends() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    pool.put_task(task("t1", submitted_at=NOW))
    (assignment,) = pool.plan(NOW, 1).assignments
    pool.put_running(running(assignment, ALICE, NOW + 120), NOW)
    pool.put_task(task("t2", submitted_at=NOW))
    pool.put_task(task("t3", submitted_at=NOW + 1))
    forecast = explained(pool, "t2").forecast
    assert forecast is not None and forecast.start == NOW + 120
    assert "should end" in forecast.basis
    assert explained(pool, "t3").forecast is None, "nothing is known about the second"


def test_the_rate_of_those_like_it_tells_when_it_will_start() -> None:
    pool = scheduler()
    pool.put_node(node_with("n1", 1))
    now = NOW
    for number in range(60):
        pool.put_task(task(f"t{number:02}", submitted_at=NOW))
    for _ in range(40):
        (assignment,) = pool.plan(now, 1).assignments
        attempt = running(assignment, ALICE, now + 60)
        pool.put_running(attempt, now)
        now += 60.0
        pool.give(attempt, now)
    pool.plan(now, 1)
    forecast = explained(pool, "t50", now).forecast
    assert forecast is not None
    assert 0.5 * 600 <= forecast.start - now <= 2 * 600, "ten before it, a minute each"
    assert "recently" in forecast.basis


@pytest.mark.parametrize("quiet_seconds", [0.0, 900.0, 7200.0])
def test_the_rate_is_of_the_time_in_which_somebody_waited(quiet_seconds: float) -> None:
    rates = StartRates()
    for number in range(5 if quiet_seconds else 0):
        rates.count("shape", NOW, NOW + 2 + number)
    start = NOW + 7 + quiet_seconds
    for number in range(100):
        rates.count("shape", start, start + number / 10)
    seconds_each = rates.each_seconds("shape", start, start + 10)
    assert seconds_each is not None and 0.09 < seconds_each < 0.2


def test_room_that_was_free_says_nothing_about_a_line() -> None:
    rates = StartRates()
    for _ in range(20):
        rates.count("shape", NOW, NOW)
    assert rates.each_seconds("shape", NOW, NOW + 10) is None


def test_a_task_without_credit_has_no_forecast_and_counts_every_node() -> None:
    pool = scheduler()
    pool.put_node(node("n1", gpu("g1", price_micro_per_hour=MICRO)))
    pool.put_node(node("n2", gpu("g2", availability=Availability.PAUSED)))
    pool.put_task(task("t1"))
    explanation = explained(pool, "t1")
    assert explanation.reason.code == "credit" and explanation.forecast is None
    assert explanation.refusals == {Refusal.DEVICE_AWAY: 1, Refusal.CREDIT: 1}
