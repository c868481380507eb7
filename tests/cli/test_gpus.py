"""`potluck gpus`: what is on offer, asked for as a task asks."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.cli.gpus.device_text import network_text
from potluck.cli.gpus.offer import OfferOrder, group_offers, sort_offers
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Standing
from potluck.model.ids import AttemptId, DeviceId, NodeId
from potluck.model.node import NodeState
from potluck.model.terms import DeviceTerms
from potluck.wire.consumer import DeviceCounts, DevicePage, DeviceUse, PoolDevice, PoolView
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, a_task, says

GIB = 2**30
CARD = DeviceDescription(DeviceKind.GPU, "GPU-1", "NVIDIA", "NVIDIA RTX 4090", 24 * GIB)


def a_device(number: int, model: str = "RTX 4090", price: int = 0, **changes: Any) -> PoolDevice:
    card = replace(CARD, model=f"NVIDIA {model}", terms=DeviceTerms(price))
    device = PoolDevice(
        *(DeviceId(f"device_{number}"), NodeId("node_1"), "attic", NodeState.ONLINE, card),
        *(Standing.BOUND, 1000, 24 * GIB, False),
    )
    return replace(device, **changes)


def lines(user: CommandLine, *arguments: str) -> list[str]:
    result = user.run("gpus", *arguments)
    assert result.status == 0, result.stderr
    return result.stdout.decode().splitlines()


def test_devices_of_one_make_and_price_are_one_line(user: CommandLine, server: FakeServer) -> None:
    devices = [
        a_device(1, price=500_000, labels=["region=eu", "fast"]),
        a_device(2, price=500_000, free_milli=0, node_name="shed", labels=["region=eu"]),
        a_device(3, price=500_000, reliability=0.975, labels=["region=eu"]),
        a_device(4, price=250_000, free_milli=0),
        a_device(5, "A100", availability=Availability.PAUSED),
        a_device(6, "A100", own_tasks_only=True),
    ]
    server.plays("/v1/devices", says(DevicePage(devices)))
    result = user.run("gpus")
    head, first, second = result.stdout.decode().splitlines()
    assert head.split() == ["MODEL", "MEMORY", "PRICE/H", "FREE", "RELIABLE", "NODES", "LABELS"]
    assert first.split("  ")[0] == "RTX 4090"
    for cell in ("24 GiB", "0.5", "2 of 3", "97-100 %", "attic, shed", "region=eu"):
        assert cell in first
    assert "fast" not in first, "only what all of them have"
    assert "0.25" in second and "0 of 1" in second
    assert "2 more take no work now" in result.stderr


def test_both_tables_agree_on_free_devices(user: CommandLine, server: FakeServer) -> None:
    devices = [
        a_device(1, free_milli=500),
        a_device(2),
        a_device(3, node_state=NodeState.SILENT),
        a_device(4, availability=Availability.PAUSED),
        a_device(5, own_tasks_only=True),
    ]
    server.plays("/v1/devices", says(DevicePage(devices)))
    _, offer = lines(user)
    assert "1.5 of 2" in offer
    rows = {line.split()[0]: re.split(" {2,}", line) for line in lines(user, "--each")}
    shares = {name: cells[4] for name, cells in rows.items()}
    assert list(map(shares.get, map("device_{}".format, range(1, 6)))) == [
        "0.5",
        "1",
        "0",
        "0",
        "0",
    ]


def test_each_device_tells_what_it_serves(user: CommandLine, server: FakeServer) -> None:
    own_use = DeviceUse(250, GIB, AttemptId("attempt_1"), a_task().id)
    half = replace(CARD, terms=DeviceTerms(memory_share=0.5))
    devices = [
        a_device(
            1,
            price=250_000,
            free_milli=500,
            free_memory_bytes=12 * GIB,
            is_mine=True,
            uses=[own_use, DeviceUse(250, GIB)],
        ),
        a_device(2, standing=Standing.FOREIGN),
        a_device(
            3,
            description=half,
            free_memory_bytes=12 * GIB,
            availability=Availability.OUTSIDE_HOURS,
            why="It opens at 18:00.",
        ),
        a_device(4, own_tasks_only=True),
    ]
    server.plays(
        "/v1/devices", says(DevicePage(devices[:1], devices[0].id)), says(DevicePage(devices[1:]))
    )
    rows = {line.split()[0]: line for line in lines(user, "--each", "--fraction", "0.25")}
    first, second = (request.path for request in server.requests)
    assert first == "/v1/devices?kind=gpu&free_milli=250&limit=500"
    assert second == "/v1/devices?cursor=device_1&kind=gpu&free_milli=250&limit=500"
    assert f"{own_use.task_id} (0.25), 1 of other accounts" in rows["device_1"]
    for cell in ("RTX 4090", "attic (mine)", "0.5", "12 of 24 GiB", "0.25", "available"):
        assert cell in rows["device_1"]
    assert "free" in rows["device_2"] and "foreign" in rows["device_2"]
    assert "12 of 12 GiB" in rows["device_3"], "of what its owner gives"
    assert "outside hours" in rows["device_3"]
    assert rows["device_3"].endswith("It opens at 18:00.")
    assert "owner's tasks only" in rows["device_4"]


def test_the_server_is_asked_as_a_task_asks(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/devices", says(DevicePage([a_device(1)])))
    filters = "--vram 24GB --max-price 0.5 --vendor NVIDIA --label region=eu --label fast --free"
    lines(user, *filters.split(), "--model", "RTX 40*", "--min-reliability", "0.9", "--kind", "any")
    assert server.requests[0].path == (
        "/v1/devices?model=RTX+40%2A&free_milli=1000&memory_bytes=24000000000"
        "&max_price_micro_per_hour=500000&vendor=NVIDIA&label=region%3Deu&label=fast"
        "&min_reliability=0.9&limit=500"
    )


@pytest.mark.parametrize(
    ("order", "first", "last"),
    [
        # (model, price, memory, free, reliability) of three cards
        (OfferOrder.PRICE, "L4", "H100"),
        (OfferOrder.MEMORY, "H100", "RTX 4090"),
        (OfferOrder.FREE, "RTX 4090", "H100"),
        (OfferOrder.RELIABILITY, "H100", "L4"),
        (OfferOrder.MODEL, "H100", "RTX 4090"),
    ],
)
def test_the_order_of_offers(order: OfferOrder, first: str, last: str) -> None:
    cards = [("RTX 4090", 2, 24, 1000, 0.9), ("H100", 9, 80, 0, 1.0), ("L4", 1, 26, 500, 0.5)]
    devices = [
        PoolDevice(
            *(DeviceId(f"device_{number}"), NodeId("node_1"), "attic", NodeState.ONLINE),
            DeviceDescription(
                *(DeviceKind.GPU, "u", "NVIDIA", model, memory * GIB), terms=DeviceTerms(price)
            ),
            *(Standing.BOUND, free, memory * GIB, False),
            reliability=reliability,
        )
        for number, (model, price, memory, free, reliability) in enumerate(cards)
    ]
    ranked = [
        offer.first.description.model for offer in sort_offers(group_offers(devices), order, False)
    ]
    assert (ranked[0], ranked[-1]) == (first, last)
    reversed_models = [
        offer.first.description.model for offer in sort_offers(group_offers(devices), order, True)
    ]
    assert reversed_models == ranked[::-1]


NONE = DeviceCounts()


@pytest.mark.parametrize(
    ("counts", "arguments", "sentence"),
    [
        ((NONE, NONE), [], "The pool is empty. Add a machine with `potluck provide http"),
        (
            (NONE, DeviceCounts(2, 1)),
            [],
            "This pool has no GPU, but 3 processors: see `potluck gpus --kind cpu`.",
        ),
        ((DeviceCounts(1), NONE), ["--kind", "cpu"], "This pool offers no processor, but 1 GPU"),
        ((DeviceCounts(1), NONE), ["--vram", "99GB"], "None of 1 device matches."),
    ],
)
def test_an_empty_list_of_gpus_is_explained(
    user: CommandLine,
    server: FakeServer,
    counts: tuple[DeviceCounts, DeviceCounts],
    arguments: list[str],
    sentence: str,
) -> None:
    server.plays("/v1/devices", says(DevicePage([])))
    server.plays("/v1/pool", says(PoolView(1, 0, *counts, 0, 0, 10_000)))
    result = user.run("gpus", *arguments)
    assert (result.status, result.stdout) == (0, b"")
    assert sentence in result.stderr
    assert user.run("gpus", "--json", *arguments).lines() == [{"devices": []}]


@pytest.mark.parametrize(
    "wrong", [["--vram", "much"], ["--max-price", "x"], ["--fraction", "2"], ["--sort", "age"]]
)
def test_invalid_filters_are_refused(
    user: CommandLine, server: FakeServer, wrong: list[str]
) -> None:
    assert user.run("gpus", *wrong).status == 64
    assert not server.requests


def test_the_network_of_a_device_is_named_by_presets() -> None:
    assert network_text(()) == ""
    assert network_text(("*",)) == "open"
    hosts = ("files.pythonhosted.org", "pypi.org", "x.org:22")
    assert network_text(hosts) == "pypi x.org:22"
