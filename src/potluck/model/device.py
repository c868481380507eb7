"""One GPU, or, on a machine that has none, its CPU."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import (
    END,
    LineText,
    MemoryBytes,
    ShortText,
)
from potluck.model.terms import DeviceTerms

# A device is divided into thousandths.
WHOLE_DEVICE_MILLI = 1000
Milli = Annotated[int, Meta(ge=1, le=WHOLE_DEVICE_MILLI)]
# Major and minor, as NVIDIA counts them: "8.6".
ComputeCapability = Annotated[str, Meta(pattern=f"^[0-9]{{1,2}}\\.[0-9]{{1,2}}{END}")]


class DeviceKind(StrEnum):
    """What the device is; a CPU is never shown as anything else."""

    GPU = "gpu"  # a graphics card or another accelerator
    CPU = "cpu"  # the processor, offered so that everything can be tried anywhere


class Standing(StrEnum):
    """Whether a device is its node's to offer. Only a bound one gets work."""

    BOUND = "bound"  # to the wallet that the node works for
    ELSEWHERE = "elsewhere"  # another node of the same wallet offers it
    CONTESTED = "contested"  # it is another wallet's, and both are asked to compute on it
    FOREIGN = "foreign"  # it is another wallet's


class Availability(StrEnum):
    """Whether a device takes new work now, as its node says."""

    AVAILABLE = "available"  # yes
    PAUSED = "paused"  # its owner said no
    OUTSIDE_HOURS = "outside_hours"  # not at this time of the week
    IN_USE = "in_use"  # its owner uses it, or did a moment ago
    SICK = "sick"  # it does not work as it should
    DRAINING = "draining"  # its node finishes what runs, and ends


class Health(StrEnum):
    """How a device does."""

    WELL = "well"  # as far as anybody can tell
    THROTTLED = "throttled"  # too hot, or short of power; works, slowly
    MEMORY_ERRORS = "memory_errors"  # it has met errors in its memory that it could not correct
    LOST = "lost"  # it does not answer any more: fallen off the bus, or its driver is gone


class Measured(Struct, frozen=True):
    """What a short benchmark on the device itself found, beside what its vendor says.

    At most what no device does: a hundred times the fastest of its day.
    """

    memory_bytes_per_second: Annotated[int, Meta(ge=0, le=10**15)] = 0
    float_operations_per_second: Annotated[int, Meta(ge=0, le=10**18)] = 0
    integer_operations_per_second: Annotated[int, Meta(ge=0, le=10**18)] = 0
    by: ShortText = "opencl"  # through which interface


class DeviceDescription(Struct, frozen=True):
    """What a provider found out about one device."""

    kind: DeviceKind
    uuid: ShortText  # the vendor's, or a hash of machine id, bus address and model
    vendor: ShortText
    model: ShortText
    memory_bytes: MemoryBytes
    compute_units: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    driver: LineText = ""
    interface: ShortText = "plain"  # how tasks reach it: cuda, hip, opencl, plain …
    compute_capability: ComputeCapability | None = None
    is_partition: bool = False  # a wall stands between its neighbours and it, as MIG makes
    parent_uuid: ShortText | None = None  # of a partition: the card that it is a part of
    pcie: ShortText | None = None  # such as "4.0 x16"
    power_watts: Annotated[int, Meta(ge=0, le=20_000)] | None = None  # the most it draws
    measured: Measured | None = None
    terms: DeviceTerms = DeviceTerms()

    @property
    def offered_bytes(self) -> int:
        """Of its memory, what its owner lets tasks have."""
        return int(self.memory_bytes * self.terms.memory_share)
