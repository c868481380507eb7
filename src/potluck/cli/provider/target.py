"""The machine that a command is about: this one, or one of mine elsewhere through the server."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Protocol

import typer
from msgspec import Struct

from potluck.cli.options import DataDirOption, ServerOption
from potluck.cli.provider.effective_terms import EffectiveTerm
from potluck.cli.provider.machine import MachineView
from potluck.cli.provider.resolve_device import DeviceChoice
from potluck.model.terms import TermsChange

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--node", metavar="NAME|ID", help="One of my machines elsewhere, instead of this one."
    ),
]
DevicesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DEVICE",
        help="Its number, uuid, the beginning of that, or a piece of its model. Without any: all.",
        show_default=False,
    ),
]


class Effect(StrEnum):
    """From when on something holds."""

    NOW = "now"
    SERVER_SILENT = "when_the_server_answers"
    NEXT_START = "at_the_next_start"
    AFTER_DRAIN = "after_the_drain"
    NEXT_HEARTBEAT = "at_the_next_heartbeat"


SENTENCES = {
    Effect.NOW: "It holds now.",
    Effect.SERVER_SILENT: "It holds here now; the pool hears of it when the server answers again.",
    Effect.NEXT_START: "No provider runs here now; it holds when one starts.",
    Effect.AFTER_DRAIN: "The provider drains, which can not be taken back: it ends, and this holds"
    " when one starts again.",
    Effect.NEXT_HEARTBEAT: "The machine hears of it with its next heartbeat.",
}


# Called with the number of attempts that still run.
OnWay = Callable[[int], None]


def ignore(_: int) -> None:
    """For those who do not watch."""


class CommandTarget(Protocol):
    """Where a command acts."""

    def shown(self) -> tuple[MachineView, Struct]:
        """For a person, and for a program as whoever tells it said it."""
        ...

    def choices(self) -> Sequence[DeviceChoice]:
        """The devices that may be meant."""
        ...

    def held(self, device: str | None) -> list[EffectiveTerm]:
        """What is in force; of the device, or of all of them."""
        ...

    def exceptions(self) -> Mapping[str, TermsChange]:
        """What is said of single devices, by uuid."""
        ...

    def change(self, change: TermsChange) -> Effect: ...

    def reclaim(self, devices: tuple[str, ...]) -> Effect:
        """Pauses them, and stops what runs on them."""
        ...

    def declares_reclaim(self, devices: tuple[str, ...]) -> bool:
        """Whether it was said of all of them that tasks may be stopped for their owner."""
        ...

    def drain(self, on_way: OnWay) -> Effect:
        """Returns when nothing runs any more, where that can be seen."""
        ...


@contextmanager
def side(
    node: NodeOption, server: ServerOption, data_dir: DataDirOption
) -> Iterator[CommandTarget]:
    if node is None and server is None:
        from potluck.cli.provider.local import Here, provider_directory

        yield Here(provider_directory(data_dir))
        return
    from potluck.cli.options import connect
    from potluck.cli.provider.remote import Elsewhere

    with connect(server) as potluck:
        yield Elsewhere(potluck, node)
