"""Every metric of the provider. `make docs` writes [metrics.md](docs/metrics.md) from this table.

Device series have the labels of NVIDIA's dcgm-exporter, so that the two can be joined.
"""

from typing import Final

from potluck.local.metrics.definition import MetricDefinition, counter, gauge, histogram

_DEVICE: Final = ("UUID", "modelName", "gpu")
_START_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

GPU_UTILISATION = gauge(
    "potluck_gpu_utilisation_ratio", "How busy the device is, from 0 to 1.", *_DEVICE
)
GPU_MEMORY_USED = gauge("potluck_gpu_memory_used_bytes", "Memory in use.", *_DEVICE)
GPU_MEMORY = gauge("potluck_gpu_memory_bytes", "The size of its memory.", *_DEVICE)
GPU_TEMPERATURE = gauge("potluck_gpu_temperature_celsius", "Its temperature.", *_DEVICE)
GPU_POWER = gauge("potluck_gpu_power_watts", "The power that it draws.", *_DEVICE)
GPU_MEMORY_ERRORS = gauge(
    "potluck_gpu_memory_errors",
    "Uncorrectable memory errors since its driver was loaded.",
    *_DEVICE,
)
GPU_HEALTH = gauge("potluck_gpu_health", "1 for its current health.", *_DEVICE, "health")
GPU_AVAILABILITY = gauge(
    "potluck_gpu_availability",
    "1 for whether, or why not, it takes new work.",
    *_DEVICE,
    "availability",
)
GPU_IN_USE = gauge("potluck_gpu_in_use", "1 while attempts of this node are on it.", *_DEVICE)

ATTEMPTS = gauge("potluck_provider_attempts", "Attempts that this node holds.")
ATTEMPTS_ENDED = counter(
    "potluck_provider_attempts_ended_total",
    "Attempts that ended on this node since its start, by end reason; `stopped` without one.",
    "reason",
)
SANDBOX_STARTS = histogram(
    "potluck_provider_sandbox_start_seconds",
    "Time from the call of a sandbox driver to the start of the command.",
    _START_SECONDS,
    "driver",
)
SANDBOX_FAILURES = counter(
    "potluck_provider_sandbox_failures_total", "Runs whose command did not start.", "driver"
)
SPOOL = gauge(
    "potluck_provider_spool_bytes",
    "What the server has not taken yet: `log` chunks and `output` files.",
    "kind",
)
CONNECTED = gauge(
    "potluck_provider_connected", "1 if the server answered the latest heartbeat, else 0."
)
HEARTBEAT_AGE = gauge(
    "potluck_provider_heartbeat_age_seconds", "Time since the server last answered a heartbeat."
)
BUILD = gauge("potluck_build_info", "Always 1; the label has the version.", "version")

TABLE: Final[tuple[MetricDefinition, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, MetricDefinition)
)
