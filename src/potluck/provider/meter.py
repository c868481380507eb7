"""What an attempt used, and how busy the machine is."""

import psutil
from msgspec import Struct

from potluck.model.usage import Usage
from potluck.provider.files.outbox import Outbox
from potluck.provider.sandbox.driver import Ended


class NodeLoad(Struct, frozen=True):
    load_percent: float
    memory_used_bytes: int


def measure_node() -> NodeLoad:
    """The load since the last call, over all cores, and the memory in use now."""
    percent = min(max(psutil.cpu_percent(interval=None), 0.0), 100.0)
    return NodeLoad(percent, psutil.virtual_memory().used)


def usage_of(ended: Ended, prepare_seconds: float, input_bytes: int, outbox: Outbox) -> Usage:
    return Usage(
        prepare_seconds=prepare_seconds,
        run_seconds=max(ended.run_seconds, 0.0),
        cpu_seconds=max(ended.cpu_seconds, 0.0),
        memory_peak_bytes=max(ended.memory_peak_bytes, 0),
        log_bytes=max(ended.log_bytes, 0),
        input_bytes=input_bytes,
        output_bytes=outbox.size_bytes,
    )
