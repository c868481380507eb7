"""The metrics of this provider. Gauges are read when they are scraped."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from potluck import __version__
from potluck.local.metrics.definition import MetricDefinition
from potluck.local.metrics.registry import LabelledValues, MetricRegistry, MetricsText
from potluck.model.device import DeviceDescription, DeviceKind
from potluck.provider.announcement import Announce, Announcement, AttemptFinished, AttemptStopped
from potluck.provider.metrics import definitions as names
from potluck.wire.device_status import DeviceStatus

# How a status is shown: the metric, the field, and what its values are divided by.
_READINGS: tuple[tuple[MetricDefinition, str, float], ...] = (
    (names.GPU_UTILISATION, "utilisation_percent", 100.0),
    (names.GPU_MEMORY_USED, "memory_used_bytes", 1.0),
    (names.GPU_TEMPERATURE, "temperature_celsius", 1.0),
    (names.GPU_POWER, "power_watts", 1.0),
    (names.GPU_MEMORY_ERRORS, "memory_errors", 1.0),
)


class ProviderFigures(Struct, frozen=True):
    """The state of a provider at one moment."""

    statuses: Sequence[DeviceStatus]
    busy: frozenset[str]  # the uuids of devices with attempts
    attempts: int
    log_bytes: int
    output_bytes: int
    silence_seconds: float  # since an answer of the server is overdue
    answer_age_seconds: float


class ProviderMetrics:
    def __init__(self) -> None:
        self.registry = registry = MetricRegistry()
        self._figures = registry.snapshot()
        self._ended = registry.counter(names.ATTEMPTS_ENDED)
        self._starts = registry.histogram(names.SANDBOX_STARTS)
        self._failures = registry.counter(names.SANDBOX_FAILURES)
        registry.gauge(names.BUILD).labels(__version__).set(1)

    def count_announced(self, announce: Announce) -> Announce:
        """Counts ends of attempts, and passes everything on."""

        def count(announcement: Announcement) -> None:
            if isinstance(announcement, AttemptFinished):
                self._ended.labels(announcement.reason).inc()
            elif isinstance(announcement, AttemptStopped):
                self._ended.labels("stopped").inc()
            announce(announcement)

        return count

    def observe_start(self, driver: str, seconds: float | None) -> None:
        if seconds is None:
            self._failures.labels(driver).inc()
        else:
            self._starts.labels(driver).observe(seconds)

    def show(self, devices: Sequence[DeviceDescription], figures: ProviderFigures) -> None:
        self._figures.replace(
            {
                **device_gauges(devices, figures),
                names.ATTEMPTS: {(): figures.attempts},
                names.SPOOL: {("log",): figures.log_bytes, ("output",): figures.output_bytes},
                names.CONNECTED: {(): float(figures.silence_seconds == 0)},
                names.HEARTBEAT_AGE: {(): figures.answer_age_seconds},
            }
        )

    def render(self, accept: str) -> MetricsText:
        return self.registry.render(accept)


def device_gauges(
    devices: Sequence[DeviceDescription], figures: ProviderFigures
) -> Mapping[MetricDefinition, LabelledValues]:
    """Of cards only: a processor is no GPU."""
    cards = [device for device in devices if device.kind is DeviceKind.GPU]
    labels = {card.uuid: (card.uuid, card.model, str(n)) for n, card in enumerate(cards)}
    statuses = [status for status in figures.statuses if status.uuid in labels]
    gauges: dict[MetricDefinition, LabelledValues] = {
        names.GPU_MEMORY: {labels[card.uuid]: card.memory_bytes for card in cards},
        names.GPU_IN_USE: {labels[card.uuid]: card.uuid in figures.busy for card in cards},
        names.GPU_HEALTH: {(*labels[status.uuid], status.health): 1.0 for status in statuses},
        names.GPU_AVAILABILITY: {
            (*labels[status.uuid], status.availability): 1.0 for status in statuses
        },
    }
    for metric, field, unit in _READINGS:
        readings = {labels[status.uuid]: getattr(status, field) for status in statuses}
        gauges[metric] = {
            card: value / unit for card, value in readings.items() if value is not None
        }
    return gauges
