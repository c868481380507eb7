"""What is on offer, summed up by model."""

import itertools
from typing import Any

from potluck.decide.market import MOST_MODELS, DeviceDemand, OfferedDevices, sum_up
from potluck.model.device import DeviceKind
from potluck.model.market import PriceRange

GIB = 2**30


def offer(price: int = 100, devices: int = 1, **changes: Any) -> OfferedDevices:
    fields = {"kind": DeviceKind.GPU, "model": "RTX 4090", "memory_bytes": 24 * GIB, "free": 0}
    return OfferedDevices(
        **{**fields, "price_micro_per_hour": price, "devices": devices, **changes}
    )


def wish(tasks: int = 1, **changes: Any) -> DeviceDemand:
    fields = {"kind": None, "model": None, "memory_bytes": 0, "max_price_micro_per_hour": None}
    return DeviceDemand(**{**fields, "tasks": tasks, **changes})


def test_an_empty_market() -> None:
    assert sum_up([], [wish()]) == []


def test_models_by_number_with_lowest_median_and_highest_price() -> None:
    (cards, processors) = sum_up(
        [
            offer(300, 1, free=1),
            offer(100, 2, free=2),
            offer(900, 2),
            offer(0, 1, kind=DeviceKind.CPU, model="EPYC", memory_bytes=8 * GIB),
        ],
        [],
    )
    assert (cards.model, cards.devices, cards.free, cards.memory_bytes) == (
        *("RTX 4090", 5, 3),
        24 * GIB,
    )
    assert (cards.lowest_micro_per_hour, cards.median_micro_per_hour) == (100, 300)
    assert cards.highest_micro_per_hour == 900
    assert cards.prices == [
        PriceRange(100, 100, 2),
        PriceRange(300, 300, 1),
        PriceRange(900, 900, 2),
    ]
    assert (processors.kind, processors.median_micro_per_hour) == (DeviceKind.CPU, 0)


def test_the_median_of_an_even_number_is_the_lower_one() -> None:
    (model,) = sum_up([offer(1), offer(2), offer(3), offer(4)], [])
    assert model.median_micro_per_hour == 2


def test_many_prices_are_ranges_that_hold_every_device_once() -> None:
    (model,) = sum_up([offer(price) for price in range(1_000, 2_000, 7)], [])
    assert len(model.prices) <= 12
    assert sum(price.devices for price in model.prices) == model.devices
    edges = [(price.from_micro_per_hour, price.to_micro_per_hour) for price in model.prices]
    assert all(low <= high for low, high in edges)
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(edges))
    assert edges[0][0] == 1_000 and edges[-1][1] == model.highest_micro_per_hour


def test_a_waiting_task_counts_for_each_model_that_it_would_take() -> None:
    offers = [
        offer(100, 2),
        offer(50, 1, model="A100", memory_bytes=80 * GIB),
        offer(0, 1, kind=DeviceKind.CPU, model="EPYC", memory_bytes=8 * GIB),
    ]
    demands = [
        wish(1),
        wish(2, kind=DeviceKind.GPU),
        wish(4, model="rtx 40*|A100"),
        wish(8, memory_bytes=48 * GIB),
        wish(16, max_price_micro_per_hour=60),
        wish(32, model="H100"),
    ]
    waiting = {model.model: model.waiting_tasks for model in sum_up(offers, demands)}
    assert waiting == {"RTX 4090": 1 + 2 + 4, "A100": 1 + 2 + 4 + 8 + 16, "EPYC": 1 + 16}


def test_the_number_of_models_is_bounded() -> None:
    models = sum_up([offer(model=f"card {number}") for number in range(300)], [])
    assert len(models) == MOST_MODELS
