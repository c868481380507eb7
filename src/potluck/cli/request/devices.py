"""On what a task runs."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from potluck.cli.request.check import device_needs, parse_labels
from potluck.cli.request.limits import WallOptions
from potluck.model.device import DeviceKind
from potluck.model.node import SandboxStrength
from potluck.model.task import Requirements
from potluck.model.units import parse_bytes, parse_credits, parse_milli

_ME = "me"

VendorOption = Annotated[str | None, typer.Option(metavar="NAME", help="Such as NVIDIA.")]
ModelOption = Annotated[str | None, typer.Option(metavar="PATTERN", help='Such as "RTX 40*|A100".')]
LabelOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL",
        help="That the node has, word for word, such as region=eu; repeatable.",
        show_default=False,
    ),
]
MinReliabilityOption = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, metavar="SHARE", help="Of its attempts, the node ended so many: 0.95."
    ),
]


@dataclass(frozen=True)
class DeviceOptions:
    """Devices, and the nodes that they are on."""

    panel: ClassVar = "What it needs"

    gpu: Annotated[int, typer.Option(min=0, max=64, help="GPUs; 0 takes any device.")] = 0
    device_kind: Annotated[DeviceKind | None, typer.Option(help="Only this kind.")] = None
    memory: Annotated[str, typer.Option(metavar="SIZE", help="On each device, such as 8GB.")] = "0"
    fraction: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="A part of one GPU: 0.25, or 250m; of a processor --cores takes its share.",
        ),
    ] = None
    share: Annotated[
        bool,
        typer.Option("--share", help="The rest of the device may serve other accounts meanwhile."),
    ] = False
    vendor: VendorOption = None
    model: ModelOption = None
    capability: Annotated[
        str | None, typer.Option(metavar="X.Y", help="CUDA compute capability, at least.")
    ] = None
    label: LabelOption = None
    min_reliability: MinReliabilityOption = None
    sandbox: Annotated[SandboxStrength | None, typer.Option(help="At least this strong.")] = None
    owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WALLET",
            help="Only on nodes of this wallet; `me` is my own; repeatable.",
            show_default=False,
        ),
    ] = None
    max_price: Annotated[
        str | None,
        typer.Option(
            metavar="CREDITS", help="At most, an hour, for all that the task takes of its devices."
        ),
    ] = None

    @property
    def on_own_nodes(self) -> bool:
        return _ME in (self.owner or ())

    def requirements(self, walls: WallOptions) -> Requirements:
        kind, count = device_needs(self.gpu, self.device_kind)
        price, fraction = self.max_price, self.fraction
        return Requirements(
            device_kind=kind,
            device_count=count,
            device_milli=parse_milli(fraction, "--fraction") if fraction else None,
            device_memory_bytes=parse_bytes(self.memory, "--memory"),
            device_vendor=self.vendor,
            device_model=self.model,
            compute_capability=self.capability,
            max_price_micro_per_hour=parse_credits(price, "--max-price") if price else None,
            labels=parse_labels(self.label or []),
            min_reliability=self.min_reliability,
            sandbox=self.sandbox,
            owners=tuple(each for each in self.owner or () if each != _ME),
            shares_device=self.share,
            cores=walls.cores,
            memory_bytes=parse_bytes(walls.ram, "--ram"),
            disk_bytes=parse_bytes(walls.disk, "--disk"),
        )
