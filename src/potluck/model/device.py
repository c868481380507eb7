"""One GPU, or, on a machine that has none, its CPU."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.text import END, Count, LineText, Price, ShortText

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


class DeviceDescription(Struct, frozen=True):
    """What a provider found out about one device."""

    kind: DeviceKind
    uuid: ShortText  # the vendor's, or a hash of machine id, bus address and model
    vendor: ShortText
    model: ShortText
    memory_bytes: Count
    compute_units: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    driver: LineText = ""
    interface: ShortText = "plain"  # how tasks reach it: cuda, hip, opencl, plain …
    compute_capability: ComputeCapability | None = None
    is_partition: bool = False  # a wall stands between its neighbours and it, as MIG makes
    shares_accounts: bool = False  # its owner lets fractions of several accounts stand side by side
    price_micro_per_hour: Price = 0
