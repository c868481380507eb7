"""What an attempt used, as the node measured it."""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import Count, Seconds


class Usage(Struct, frozen=True):
    prepare_seconds: Seconds = 0.0
    run_seconds: Seconds = 0.0
    cpu_seconds: Seconds = 0.0
    memory_peak_bytes: Count = 0
    log_bytes: Count = 0
    device_seconds: Seconds = 0.0  # that its devices computed, where they tell how busy they are
    energy_joules: Annotated[float, Meta(ge=0, le=1e15)] | None = (
        None  # where they tell their power
    )
    input_bytes: Count = 0  # that were brought to the node for it
    output_bytes: Count = 0
