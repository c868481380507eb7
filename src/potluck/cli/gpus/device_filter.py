"""Which devices somebody wants to see, in the words in which a task asks for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from potluck.cli.request.check import parse_labels
from potluck.cli.request.devices import (
    LabelOption,
    MinReliabilityOption,
    ModelOption,
    VendorOption,
)
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.units import parse_bytes, parse_credits, parse_milli
from potluck.wire.consumer import PoolDevice

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_PAGE = 500


class Kind(StrEnum):
    """Of devices to be shown."""

    GPU = "gpu"
    CPU = "cpu"
    ANY = "any"


@dataclass(frozen=True)
class WantedOptions:
    """Only devices that are like this; as `potluck run` asks for them."""

    panel: ClassVar = "Only those that are like this"

    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="With so much memory, such as 24GB.")
    ] = None
    model: ModelOption = None
    max_price: Annotated[
        str | None, typer.Option(metavar="CREDITS", help="At most, an hour, for all of it.")
    ] = None
    free: Annotated[bool, typer.Option("--free", help="Wholly free now.")] = False
    fraction: Annotated[
        str | None, typer.Option(metavar="SHARE", help="With so much of it free now: 0.25, 250m.")
    ] = None
    min_reliability: MinReliabilityOption = None
    vendor: VendorOption = None
    label: LabelOption = None
    kind: Annotated[Kind, typer.Option(help="Of device.")] = Kind.GPU

    def query(self) -> dict[str, Any]:
        """What the server is asked."""
        price, memory = self.max_price, self.memory
        return {
            "kind": None if self.kind is Kind.ANY else DeviceKind(self.kind),
            "model": self.model,
            "free_milli": self._free_milli(),
            "memory_bytes": parse_bytes(memory, "--memory") if memory else None,
            "max_price_micro_per_hour": parse_credits(price, "--max-price") if price else None,
            "vendor": self.vendor,
            "labels": parse_labels(self.label or []),
            "min_reliability": self.min_reliability,
        }

    def _free_milli(self) -> int | None:
        if self.fraction:
            return parse_milli(self.fraction, "--fraction")
        return WHOLE_DEVICE_MILLI if self.free else None


def found(potluck: "Potluck", wanted: WantedOptions) -> Iterator[PoolDevice]:
    """All of them, page after page."""
    query, cursor = wanted.query(), None
    while True:
        page = potluck.resources.devices(cursor, limit=_PAGE, **query)
        yield from page.devices
        cursor = page.next_cursor
        if cursor is None:
            return
