"""What a provider tells Prometheus on its own machine: devices, attempts, sandboxes."""

import asyncio
from typing import Any, cast

import aiohttp
import pytest

from potluck.model.device import Availability, DeviceDescription, DeviceKind, Health
from potluck.model.error import PortTaken
from potluck.model.ids import AttemptId, TaskId
from potluck.model.task import GIB, EndReason
from potluck.provider.announcement import Announcement, AttemptFinished, AttemptStopped
from potluck.provider.metrics.endpoint import serve_metrics
from potluck.provider.metrics.metrics import ProviderFigures, ProviderMetrics
from potluck.provider.metrics.sandbox_times import TimedDriver
from potluck.provider.sandbox.driver import Driver, RunHooks, RunOutcome, make_trial
from potluck.wire.device_status import DeviceStatus
from tests.processes import free_port

CARDS = [
    DeviceDescription(DeviceKind.GPU, uuid, "NVIDIA", "RTX 4090", 24 * GIB)
    for uuid in ("GPU-a", "GPU-b")
]
PROCESSOR = DeviceDescription(DeviceKind.CPU, "cpu-1", "Intel", "Xeon", 8 * GIB)
STATUSES = (
    DeviceStatus(
        "GPU-a",
        utilisation_percent=40.0,
        temperature_celsius=71.0,
        memory_used_bytes=GIB,
        power_watts=250.0,
    ),
    DeviceStatus("GPU-b", Availability.SICK, "It is lost.", Health.LOST),
    DeviceStatus("cpu-1", temperature_celsius=50.0),
)


def figures(**changes: Any) -> ProviderFigures:
    values = {
        "statuses": STATUSES,
        "busy": frozenset({"GPU-a"}),
        "attempts": 2,
        "log_bytes": 100,
        "output_bytes": 200,
        "silence_seconds": 0.0,
        "answer_age_seconds": 3.0,
    }
    return ProviderFigures(**{**values, **changes})


@pytest.fixture
def metrics() -> ProviderMetrics:
    return ProviderMetrics()


def test_cards_have_the_labels_of_nvidias_exporter(metrics: ProviderMetrics) -> None:
    metrics.show([PROCESSOR, *CARDS], figures())
    card = {"UUID": "GPU-a", "modelName": "RTX 4090", "gpu": "0"}
    value = metrics.registry.value
    assert value("potluck_gpu_utilisation_ratio", **card) == 0.4
    assert value("potluck_gpu_temperature_celsius", **card) == 71
    assert value("potluck_gpu_memory_bytes", **card) == 24 * GIB
    assert value("potluck_gpu_in_use", **card) == 1
    lost_labels = {"UUID": "GPU-b", "modelName": "RTX 4090", "gpu": "1"}
    assert value("potluck_gpu_health", **lost_labels, health="lost") == 1
    assert value("potluck_gpu_availability", **lost_labels, availability="sick") == 1
    assert value("potluck_gpu_power_watts", **lost_labels) is None, "its driver does not say"
    assert b"cpu-1" not in metrics.render("").body, "a processor is no GPU"


def test_metrics_of_unsent_data_and_of_contact(metrics: ProviderMetrics) -> None:
    metrics.show(CARDS, figures())
    assert metrics.registry.value("potluck_provider_spool_bytes", kind="output") == 200
    assert metrics.registry.value("potluck_provider_connected") == 1
    metrics.show(CARDS, figures(silence_seconds=12.0))
    assert metrics.registry.value("potluck_provider_connected") == 0


def test_ends_are_counted_and_passed_on(metrics: ProviderMetrics) -> None:
    passed: list[Announcement] = []
    announce = metrics.count_announced(passed.append)
    names = AttemptId("attempt_1"), TaskId("task_1")
    announce(AttemptFinished(*names, EndReason.COMPLETED, 0, "", 1.0))
    announce(AttemptStopped(*names))
    assert len(passed) == 2
    for reason in ("completed", "stopped"):
        name = "potluck_provider_attempts_ended_total"
        assert metrics.registry.value(name, reason=reason) == 1


class _SomeDriver:
    """Starts, or does not."""

    encloses_processes = True

    def __init__(self, starts: bool, reason: EndReason) -> None:
        self._starts = starts
        self._reason = reason

    async def run(self, confinement: Any, output: Any, hooks: Any) -> RunOutcome:
        if self._starts:
            await hooks.started()
        return RunOutcome(self._reason, "it ended")


@pytest.mark.parametrize(
    ("starts", "reason", "failures"),
    [
        (True, EndReason.COMPLETED, None),
        (False, EndReason.SANDBOX_FAILED, 1),
        (False, EndReason.RECLAIMED, None),
    ],
)
async def test_starts_are_timed_by_driver(
    metrics: ProviderMetrics, starts: bool, reason: EndReason, failures: int | None
) -> None:
    heard_event = asyncio.Event()

    async def started() -> None:
        heard_event.set()

    async def output(_: str, __: bytes) -> None: ...

    driver = cast(Driver, _SomeDriver(starts, reason))
    timed = TimedDriver(driver, "bwrap", "docker", metrics.observe_start)
    await timed.run(make_trial("a trial"), output, RunHooks(started))
    assert heard_event.is_set() == starts
    value = metrics.registry.value
    count = value("potluck_provider_sandbox_start_seconds_count", driver="bwrap")
    assert count == (1 if starts else None)
    assert value("potluck_provider_sandbox_failures_total", driver="bwrap") == failures


async def test_metrics_are_served_on_loopback_under_local_names_only(
    metrics: ProviderMetrics,
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    refreshes: list[bool] = []
    async with (
        serve_metrics(metrics, port, lambda: refreshes.append(True)),
        aiohttp.ClientSession() as session,
    ):
        async with session.get(url) as response:
            assert response.status == 200 and refreshes == [True]
            assert "potluck_build_info" in await response.text()
        async with session.get(url, headers={"Host": "evil.example"}) as response:
            assert response.status == 403 and refreshes == [True]
        with pytest.raises(PortTaken, match=str(port)):
            async with serve_metrics(metrics, port, lambda: None):
                pass
