"""May this task run on this node, and if not, why?"""

from typing import Any

import pytest

from potluck.decide.pool.feasibility import Fit, Refusal, fit, suitable
from potluck.decide.types import FreeDevice
from potluck.model.blob import VolumeMount
from potluck.model.device import Availability, DeviceKind
from potluck.model.node import SandboxStrength
from potluck.model.task import GIB
from tests.decide.builders import ALICE, BOB, PASSING, cpu, gpu, node, task

# Two volumes of a MiB each.
VOLUMES = tuple(VolumeMount(name, f"/{name}", size_bytes=2**20) for name in ("data", "more"))
REFUSED = [
    # (what the task wants, what the node is, why it does not do)
    ({}, {"own_tasks_only": True}, Refusal.OWN_TASKS_ONLY),
    ({"owners": ("0xa", "0xb")}, {"wallet": "0xc"}, Refusal.OWNER),
    ({"owners": ("0xa",)}, {}, Refusal.OWNER),
    ({"kind": "container"}, {"kinds": frozenset({"script", "function"})}, Refusal.KIND),
    # Strong enough for a script, and not where images are run.
    (
        {"kind": "container", "sandbox": SandboxStrength.KERNEL},
        {"sandbox": SandboxStrength.KERNEL, "containers": SandboxStrength.NAMESPACES},
        Refusal.SANDBOX,
    ),
    ({"python": "3.11"}, {"python": "3.12"}, Refusal.PYTHON),
    ({"python": "3.11"}, {}, Refusal.PYTHON),
    ({"python": "3.1"}, {"python": "3.11.2"}, Refusal.PYTHON),
    ({"python": ">=3.12"}, {"python": "3.11.2"}, Refusal.PYTHON),
    ({"python": ">=3.12"}, {}, Refusal.PYTHON),
    ({"python": ">=3.12"}, {"python": "unknown"}, Refusal.PYTHON),
    ({"python": "3.12"}, {"python": "3.11.2", "more_pythons": ("3.13.1",)}, Refusal.PYTHON),
    ({"sandbox": SandboxStrength.KERNEL}, {"sandbox": SandboxStrength.NAMESPACES}, Refusal.SANDBOX),
    ({"labels": ("region=eu",)}, {"labels": frozenset({"region=us"})}, Refusal.LABELS),
    ({"stdin": True}, {"takes_stdin": False}, Refusal.STDIN),
    ({"min_reliability": 0.9}, {"reliability": 0.89}, Refusal.RELIABILITY),
    ({"device_kind": DeviceKind.CPU}, {}, Refusal.DEVICE_KIND),
    ({"device_vendor": "amd"}, {"devices": (gpu(vendor="NVIDIA"),)}, Refusal.DEVICE_VENDOR),
    ({"device_model": "A100|H100"}, {}, Refusal.DEVICE_MODEL),
    (
        {"compute_capability": "10.0"},
        {"devices": (gpu(compute_capability="9.0"),)},
        Refusal.COMPUTE_CAPABILITY,
    ),
    ({"compute_capability": "1.0"}, {}, Refusal.COMPUTE_CAPABILITY),
    ({"device_memory_bytes": 25 * GIB}, {}, Refusal.DEVICE_MEMORY),
    ({}, {"devices": (gpu(kinds=frozenset({"container"})),)}, Refusal.TASK_KIND),
    ({}, {"devices": (gpu(allow=frozenset({BOB})),)}, Refusal.WALLET),
    ({}, {"devices": (gpu(deny=frozenset({ALICE})),)}, Refusal.WALLET),
    # Who is on both lists is denied.
    ({}, {"devices": (gpu(allow=frozenset({ALICE}), deny=frozenset({ALICE})),)}, Refusal.WALLET),
    ({"device_milli": 249}, {"devices": (gpu(least_milli=250),)}, Refusal.FRACTION),
    ({"network": ("pypi.org",)}, {}, Refusal.NETWORK),
    # Another host, another port, names above, and what only its owner's tasks may reach.
    ({"network": ("pypi.org",)}, {"devices": (gpu(network=("github.com",)),)}, Refusal.NETWORK),
    ({"network": ("pypi.org:22",)}, {"devices": (gpu(network=("*",)),)}, Refusal.NETWORK),
    ({"network": ("x.org",)}, {"devices": (gpu(network=("*.x.org",)),)}, Refusal.NETWORK),
    ({"network": ("*",)}, {"devices": (gpu(network=("*.x.org",)),)}, Refusal.NETWORK),
    ({"network": ("*",)}, {"devices": (gpu(own_network=("*",)),)}, Refusal.NETWORK),
    (
        {"network": ("*",), "network_bytes": 2001},
        {"devices": (gpu(network=("*",), network_task_bytes=2000),)},
        Refusal.NETWORK,
    ),
    ({"device_count": 2}, {}, Refusal.DEVICE_COUNT),
    ({"max_price_micro_per_hour": 1}, {"devices": (gpu(price_micro_per_hour=2),)}, Refusal.PRICE),
    ({"cores": 9}, {}, Refusal.CORES),
    ({"memory_bytes": 17 * GIB}, {"memory_bytes": 16 * GIB}, Refusal.MEMORY),
    ({"disk_bytes": 17 * GIB}, {"disk_bytes": 16 * GIB}, Refusal.DISK),
    ({"volumes": VOLUMES}, {"volumes_bytes": 2**20}, Refusal.VOLUMES),
    # Its disk would be in memory.
    (
        {"disk_bytes": 2 * GIB, "memory_bytes": 5 * GIB},
        {"disk_bytes": 16 * GIB, "others_disk_in_memory": True},
        Refusal.DISK,
    ),
    ({}, {"devices": (gpu(availability=Availability.PAUSED),)}, Refusal.DEVICE_AWAY),
    ({}, {"is_cordoned": True}, Refusal.CORDONED),
    # One of the two is there, and both are wanted.
    (
        {"device_count": 2},
        {"devices": (gpu("g1"), gpu("g2", availability=Availability.SICK))},
        Refusal.DEVICE_AWAY,
    ),
    # What lasts longer is told first.
    (
        {"max_price_micro_per_hour": 1},
        {"devices": (gpu(price_micro_per_hour=2, availability=Availability.IN_USE),)},
        Refusal.PRICE,
    ),
    ({}, {"devices": (gpu(free_milli=999),)}, Refusal.DEVICE_BUSY),
    # There is enough of the device, and not enough of its memory.
    (
        {"device_milli": 100, "device_memory_bytes": 2 * GIB},
        {"devices": (gpu(free_milli=500, free_memory_bytes=GIB, serves=ALICE),)},
        Refusal.DEVICE_BUSY,
    ),
    (
        {"device_milli": 100},
        {"devices": (gpu(free_milli=500, free_memory_bytes=12 * GIB, serves=BOB),)},
        Refusal.DEVICE_SHARED,
    ),
    ({"memory_bytes": 17 * GIB}, {}, Refusal.NODE_BUSY),
    ({"disk_bytes": 17 * GIB}, {}, Refusal.NODE_BUSY),
    ({}, {"free_cores": 0}, Refusal.NODE_BUSY),
]


@pytest.mark.parametrize(("requirements", "offered", "refusal"), REFUSED)
def test_the_first_wall_is_the_reason(
    requirements: dict[str, Any], offered: dict[str, Any], refusal: Refusal
) -> None:
    assert fit(task(**requirements), node(**offered)) is refusal
    suitable_devices = suitable(task(**requirements), node(**offered))
    assert (
        isinstance(suitable_devices, tuple) if refusal in PASSING else suitable_devices is refusal
    )


def test_every_refusal_but_that_of_the_account_is_tried() -> None:
    assert {row[2] for row in REFUSED} == set(Refusal) - {Refusal.CREDIT}


@pytest.mark.parametrize("pattern", ["rtx 40*", "RTX", "*4090", "nvidia*", "A100|RTX 40*"])
def test_a_model_pattern_matches_any_part_in_any_case(pattern: str) -> None:
    assert isinstance(fit(task(device_model=pattern), node()), Fit)


@pytest.mark.parametrize(
    ("requirements", "offered"),
    [
        ({"owners": ("0xa", "0xb")}, {"wallet": "0xb"}),
        ({"kind": "container"}, {"kinds": frozenset(), "containers": SandboxStrength.NAMESPACES}),
        (
            {"kind": "container", "sandbox": SandboxStrength.KERNEL},
            {"containers": SandboxStrength.KERNEL, "sandbox": SandboxStrength.NAMESPACES},
        ),
        ({"kind": "function", "python": "3.11"}, {"python": "3.11"}),
        ({"python": ">=3.12"}, {"python": "3.11.2", "more_pythons": ("3.10.4", "3.13.1")}),
    ],
)
def test_requirements_that_a_node_meets(
    requirements: dict[str, Any], offered: dict[str, Any]
) -> None:
    assert isinstance(fit(task(**requirements), node(**offered)), Fit)


def test_a_node_without_sandbox_serves_its_owner() -> None:
    own_node = node(account_id=ALICE, own_tasks_only=True)
    assert isinstance(fit(task(account_id=ALICE), own_node), Fit)
    assert fit(task(account_id=BOB), own_node) is Refusal.OWN_TASKS_ONLY
    for_images = node(account_id=ALICE, own_images_only=True)
    assert isinstance(fit(task(account_id=BOB), for_images), Fit)
    assert isinstance(fit(task(account_id=ALICE, kind="container"), for_images), Fit)
    assert fit(task(account_id=BOB, kind="container"), for_images) is Refusal.OWN_TASKS_ONLY


@pytest.mark.parametrize(
    ("requirements", "device"),
    [
        ({}, gpu(kinds=frozenset({"script", "container"}))),
        ({}, gpu(allow=frozenset({ALICE, BOB}))),
        ({}, gpu(deny=frozenset({BOB}))),
        ({}, gpu(least_milli=1000)),
        ({"device_milli": 250}, gpu(least_milli=250)),
        # Of a processor a task has what its cores make up.
        ({"cores": 1}, cpu(least_milli=500)),
    ],
)
def test_tasks_that_the_owners_terms_permit(
    requirements: dict[str, Any], device: FreeDevice
) -> None:
    assert isinstance(fit(task(**requirements), node("n1", device)), Fit)


@pytest.mark.parametrize("availability", list(Availability)[1:])
def test_unavailable_devices_are_skipped(availability: Availability) -> None:
    both = node("n1", gpu("g1", availability=availability), gpu("g2", price_micro_per_hour=9))
    placement = fit(task(), both)
    assert isinstance(placement, Fit) and [share.device_id for share in placement.shares] == ["g2"]


def test_shares_of_devices_and_their_prices() -> None:
    whole_fit = fit(task(), node("n1", gpu("g1", price_micro_per_hour=100)))
    half = fit(task(device_milli=500), node("n1", gpu("g1", price_micro_per_hour=100)))
    exact_fit = fit(task(device_milli=500, device_memory_bytes=GIB), node("n1", gpu("g1")))
    cores = fit(task(cores=2), node("n1", cpu("c1", price_micro_per_hour=100)))
    fits = [
        placement for placement in (whole_fit, half, exact_fit, cores) if isinstance(placement, Fit)
    ]
    shares = [(placement.shares[0].milli, placement.shares[0].memory_bytes) for placement in fits]
    assert shares == [(1000, 24 * GIB), (500, 12 * GIB), (500, GIB), (250, 0)]
    assert [placement.price_micro_per_hour for placement in fits] == [100, 50, 0, 25]


SHARED = gpu(free_milli=500, free_memory_bytes=12 * GIB, serves=BOB, shares_accounts=True)


@pytest.mark.parametrize(
    ("device", "shares_device", "is_open"),
    [
        # Owner, task and all on it agree.
        (SHARED, True, True),
        (SHARED, False, False),
        (gpu(free_milli=500, free_memory_bytes=12 * GIB, serves=BOB), True, False),
        (
            gpu(
                free_milli=500,
                free_memory_bytes=12 * GIB,
                serves=BOB,
                shares_accounts=True,
                serves_sharers=False,
            ),
            True,
            False,
        ),
        # A partition is a wall.
        (
            gpu(free_milli=500, free_memory_bytes=12 * GIB, serves=BOB, is_partition=True),
            False,
            True,
        ),
        # One's own are never in the way, nor is a device on which nothing runs.
        (gpu(free_milli=500, free_memory_bytes=12 * GIB, serves=ALICE), False, True),
        (gpu(), False, True),
    ],
)
def test_a_fraction_stands_beside_its_own_account_unless_all_agree(
    device: Any, shares_device: bool, is_open: bool
) -> None:
    waiting_task = task(device_milli=200, shares_device=shares_device)
    assert isinstance(fit(waiting_task, node("n1", device)), Fit) is is_open


def test_the_cheapest_devices_of_a_node_first() -> None:
    mixed = node(
        "n1", gpu("dear", price_micro_per_hour=9), gpu("cheap"), gpu("large", memory_bytes=80 * GIB)
    )
    placement = fit(task(device_count=2), mixed)
    assert isinstance(placement, Fit)
    assert [share.device_id for share in placement.shares] == ["cheap", "large"]


def test_a_disk_in_memory_is_that_of_others_only() -> None:
    waiting_task = task(disk_bytes=2 * GIB, memory_bytes=5 * GIB)
    sizes: dict[str, Any] = {"disk_bytes": 16 * GIB, "others_disk_in_memory": True}
    assert not isinstance(suitable(waiting_task, node(account_id=ALICE, **sizes)), Refusal)
    usual = task(disk_bytes=GIB // 4, memory_bytes=GIB)
    assert not isinstance(suitable(usual, node(account_id=BOB, **sizes)), Refusal)
