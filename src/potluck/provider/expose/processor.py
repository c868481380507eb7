"""The machine's processors: how many there are and how they lie, as the kernel tells it.

Drivers of OpenCL for processors do not start without it (PoCL ends the program that asks it which
devices there are), also where a task was granted a card and only looks through all of them. It
tells no more than /proc/cpuinfo does, and can not be written to.
"""

from potluck.provider.expose.exposed import Exposed, Machine

_TOPOLOGY = "/sys/devices/system/cpu"


def topology(machine: Machine) -> Exposed:
    is_told = machine.at(_TOPOLOGY).is_dir()
    return Exposed(mounts=(machine.shown(_TOPOLOGY),) if is_told else ())
