"""Filters for devices, with the same options as task requirements."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from potluck.cli.request.options import option_info
from potluck.local.option_values import parse_labels
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.units import parse_credits, parse_milli, parse_vram
from potluck.wire.consumer import PoolDevice

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_PAGE = 500


class Kind(StrEnum):
    GPU = "gpu"
    CPU = "cpu"
    ANY = "any"


@dataclass(frozen=True)
class DeviceFilterOptions:
    """Filters with the same meaning as in `potluck run`."""

    panel: ClassVar = "Filters"

    vram: Annotated[
        str | None,
        typer.Option(
            "--vram", "--memory", metavar="SIZE", help="At least this much memory, such as 24GB."
        ),
    ] = None
    model: Annotated[str | None, option_info("model")] = None
    max_price: Annotated[
        str | None,
        typer.Option(metavar="CREDITS", help="Highest price per hour for the whole device."),
    ] = None
    free: Annotated[bool, typer.Option("--free", help="Only completely free devices.")] = False
    fraction: Annotated[
        str | None, typer.Option(metavar="SHARE", help="At least this share free now: 0.25, 250m.")
    ] = None
    min_reliability: Annotated[float | None, option_info("min-reliability")] = None
    vendor: Annotated[str | None, option_info("vendor")] = None
    label: Annotated[list[str] | None, option_info("label")] = None
    kind: Annotated[Kind, typer.Option(help="Kind of device.")] = Kind.GPU

    def query(self) -> dict[str, Any]:
        price, vram = self.max_price, self.vram
        return {
            "kind": None if self.kind is Kind.ANY else DeviceKind(self.kind),
            "model": self.model,
            "free_milli": self._free_milli(),
            "memory_bytes": parse_vram(vram, "--vram") if vram else None,
            "max_price_micro_per_hour": parse_credits(price, "--max-price") if price else None,
            "vendor": self.vendor,
            "labels": parse_labels(self.label or []),
            "min_reliability": self.min_reliability,
        }

    def _free_milli(self) -> int | None:
        if self.fraction:
            return parse_milli(self.fraction, "--fraction")
        return WHOLE_DEVICE_MILLI if self.free else None


def find_devices(potluck: "Potluck", options: DeviceFilterOptions) -> Iterator[PoolDevice]:
    """All matching devices, page by page."""
    query, cursor = options.query(), None
    while True:
        page = potluck.resources.devices(cursor, limit=_PAGE, **query)
        yield from page.devices
        cursor = page.next_cursor
        if cursor is None:
            return
