"""A device: one GPU, or the CPU of a machine without a GPU."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, LineText, MemoryBytes, ShortText
from potluck.model.terms import DeviceTerms

# A device is divided into thousandths.
WHOLE_DEVICE_MILLI = 1000
Milli = Annotated[int, Meta(ge=1, le=WHOLE_DEVICE_MILLI)]
# Major and minor, as NVIDIA counts them: "8.6".
ComputeCapability = Annotated[str, Meta(pattern=f"^[0-9]{{1,2}}\\.[0-9]{{1,2}}{END}")]


class DeviceKind(StrEnum):
    """The kind of a device; a CPU is never shown as anything else."""

    GPU = "gpu"  # a graphics card or another accelerator
    CPU = "cpu"  # the processor, so that everything also works without a GPU


class Standing(StrEnum):
    """Whether a node may offer a device. Only a bound device gets work."""

    BOUND = "bound"  # bound to the wallet that the node works for
    ELSEWHERE = "elsewhere"  # another node of the same wallet offers it
    CONTESTED = "contested"  # bound to another wallet; both must answer challenges
    FOREIGN = "foreign"  # bound to another wallet


class Availability(StrEnum):
    """Whether a device takes new work now, as its node reports."""

    AVAILABLE = "available"  # takes work
    PAUSED = "paused"  # paused by its owner
    OUTSIDE_HOURS = "outside_hours"  # outside of its hours
    IN_USE = "in_use"  # in use by its owner, now or recently
    SICK = "sick"  # not working correctly
    DRAINING = "draining"  # its node finishes the running tasks and then stops


class Health(StrEnum):
    """The health of a device."""

    WELL = "well"  # no known problem
    THROTTLED = "throttled"  # too hot or short of power; works slowly
    MEMORY_ERRORS = "memory_errors"  # uncorrectable memory errors occurred
    LOST = "lost"  # does not respond: off the bus, or its driver is gone


class Measured(Struct, frozen=True):
    """Results of a short benchmark on the device.

    The upper bounds are a hundred times the fastest device at the time of writing.
    """

    memory_bytes_per_second: Annotated[int, Meta(ge=0, le=10**15)] = 0
    float_operations_per_second: Annotated[int, Meta(ge=0, le=10**18)] = 0
    integer_operations_per_second: Annotated[int, Meta(ge=0, le=10**18)] = 0
    by: ShortText = "opencl"  # the interface of the benchmark


class DeviceDescription(Struct, frozen=True):
    """A device as its provider describes it."""

    kind: DeviceKind
    uuid: ShortText  # the vendor's, or a hash of machine id, bus address and model
    vendor: ShortText
    model: ShortText
    memory_bytes: MemoryBytes
    compute_units: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    driver: LineText = ""
    interface: ShortText = "plain"  # how tasks use it: cuda, hip, opencl, plain …
    compute_capability: ComputeCapability | None = None
    is_partition: bool = False  # isolated from its neighbours in hardware, such as MIG
    parent_uuid: ShortText | None = None  # the card that this is a partition of
    pcie: ShortText | None = None  # such as "4.0 x16"
    power_watts: Annotated[int, Meta(ge=0, le=20_000)] | None = None  # the maximum power draw
    measured: Measured | None = None
    terms: DeviceTerms = DeviceTerms()

    @property
    def offered_bytes(self) -> int:
        """The share of its memory that tasks may use."""
        return int(self.memory_bytes * self.terms.memory_share)
