"""What touches each limit, and the reason that it must end with."""

from msgspec import Struct

from potluck.model.task import MIB, EndReason
from tests.provider.sandbox.conftest import Host
from tests.provider.sandbox.host import Answer

_FORKS = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
_EATS = "held = []\nwhile True: held.append(bytearray(1 << 20))"
_EATS_IN_PARTS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        break
held = bytearray(96 << 20)
time.sleep(60)
"""
_FILLS = """
import time
try:
    with open('big', 'wb') as file:
        for _ in range(1000): file.write(bytes(1 << 20))
except OSError:
    time.sleep(60)
"""
_FILLS_WITH_NAMES = """
import time
try:
    for number in range(10_000_000): open(str(number), 'w').close()
except OSError:
    time.sleep(60)
"""
_STAYS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""
# Four that never rest, so that they would have all cores of a small machine.
BUSY = """
import os, time
children = [os.fork() for _ in range(3)]
end = time.monotonic() + 1.5
while time.monotonic() < end: pass
"""


class Limit(Struct, frozen=True):
    name: str
    source: str
    reason: EndReason
    changes: dict[str, object] = {}


# Each takes memory of the kernel, or a place on the host's disk, however empty it is.
NAMES = Limit("names", _FILLS_WITH_NAMES, EndReason.DISK_LIMIT, {"disk_bytes": 2 * MIB})
LIMITS = [
    Limit("processes", _FORKS, EndReason.PROCESS_LIMIT, {"memory_bytes": 1024 * MIB}),
    Limit("memory", _EATS, EndReason.MEMORY_LIMIT),
    Limit("memory of several", _EATS_IN_PARTS, EndReason.MEMORY_LIMIT, {"memory_bytes": 256 * MIB}),
    Limit("disk", _FILLS, EndReason.DISK_LIMIT),
    NAMES,
    Limit("time", _STAYS, EndReason.TIME_LIMIT, {"seconds": 0.5}),
]
CORES = 1
MOST_SHARE = 1.3  # of a second of the processor in a second, with one core


def touch(host: Host, limit: Limit) -> Answer:
    return host.python(limit.source, **limit.changes)


def share(host: Host) -> float:
    """How many cores it really had."""
    outcome = host.python(BUSY, cores=CORES).ended
    assert outcome is not None and outcome.reason is EndReason.COMPLETED, outcome
    return outcome.cpu_seconds / outcome.run_seconds
