"""The resource usage of an attempt, as the node measured it."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import Count, Seconds


class Usage(Struct, frozen=True):
    prepare_seconds: Seconds = 0.0
    run_seconds: Seconds = 0.0
    cpu_seconds: Seconds = 0.0
    memory_peak_bytes: Count = 0
    log_bytes: Count = 0
    device_seconds: Seconds = 0.0  # computing time of its devices, if they report their load
    energy_joules: Annotated[float, Meta(ge=0, le=1e15)] | None = None  # if they report their power
    input_bytes: Count = 0  # downloaded to the node for this attempt
    output_bytes: Count = 0
    network_bytes: Count = 0  # that the code sent and received
