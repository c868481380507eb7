"""The machine that a command acts on: this one, or one of my remote ones through the server."""

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
        "--node", metavar="NAME|ID", help="One of my remote machines instead of this one."
    ),
]
DevicesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DEVICE",
        help="Number, uuid, uuid prefix, or part of the model name; default: all.",
        show_default=False,
    ),
]


class Effect(StrEnum):
    """When a change takes effect."""

    NOW = "now"
    SERVER_SILENT = "when_the_server_answers"
    NEXT_START = "at_the_next_start"
    AFTER_DRAIN = "after_the_drain"
    NEXT_HEARTBEAT = "at_the_next_heartbeat"


EFFECT_TEXTS = {
    Effect.NOW: "In effect now.",
    Effect.SERVER_SILENT: "In effect here now, and in the pool when the server answers again.",
    Effect.NEXT_START: "No provider is running here; it takes effect when one starts.",
    Effect.AFTER_DRAIN: "The provider is draining, which cannot be undone; it takes effect when one"
    " starts again.",
    Effect.NEXT_HEARTBEAT: "It takes effect with the machine's next heartbeat.",
}


# Called with the number of attempts that are still running.
OnProgress = Callable[[int], None]


def ignore_progress(_: int) -> None:
    """For callers without a progress display."""


class CommandTarget(Protocol):
    def view(self) -> tuple[MachineView, Struct]:
        """A view for people, and the original report for programs."""
        ...

    def choices(self) -> Sequence[DeviceChoice]:
        """The devices to choose from."""
        ...

    def effective_terms(self, device: str | None) -> list[EffectiveTerm]:
        """The settings in effect, of one device or of all."""
        ...

    def exceptions(self) -> Mapping[str, TermsChange]:
        """Settings of single devices, by uuid."""
        ...

    def change(self, change: TermsChange) -> Effect: ...

    def reclaim(self, devices: tuple[str, ...]) -> Effect:
        """Pauses the devices and stops their tasks."""
        ...

    def declares_reclaim(self, devices: tuple[str, ...]) -> bool:
        """Whether all these devices declare that their owner may stop tasks."""
        ...

    def drain(self, on_progress: OnProgress) -> Effect:
        """Returns when nothing runs any more; for a remote machine, immediately."""
        ...


@contextmanager
def open_target(
    node: NodeOption, server: ServerOption, data_dir: DataDirOption
) -> Iterator[CommandTarget]:
    if node is None and server is None:
        from potluck.cli.provider.local import LocalTarget, provider_directory

        yield LocalTarget(provider_directory(data_dir))
        return
    from potluck.cli.options import connect
    from potluck.cli.provider.remote import RemoteTarget

    with connect(server) as potluck:
        yield RemoteTarget(potluck, node)
