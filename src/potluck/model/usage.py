"""What an attempt used, as the node measured it."""

from msgspec import Struct

from potluck.model.text import Count, Seconds


class Usage(Struct, frozen=True):
    prepare_seconds: Seconds = 0.0
    run_seconds: Seconds = 0.0
    cpu_seconds: Seconds = 0.0
    memory_peak_bytes: Count = 0
    log_bytes: Count = 0
