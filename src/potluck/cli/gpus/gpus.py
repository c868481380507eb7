"""`potluck gpus`: what is on offer in the pool."""

from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import EntryOptions, entered
from potluck.cli.gpus.device_filter import Kind, WantedOptions, found
from potluck.cli.gpus.offer import (
    DeviceOffer,
    OfferOrder,
    in_order,
    is_offered,
    offers,
)
from potluck.cli.gpus.tables import show_each, show_offers
from potluck.cli.option_groups import grouped
from potluck.cli.options import JsonOption, ServerOption
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.units import show_count
from potluck.wire.consumer import DeviceCounts, PoolDevice, PoolView


@grouped
def gpus(
    wanted: WantedOptions,
    entry: EntryOptions,
    sort: Annotated[OfferOrder, typer.Option(help="What comes first.")] = OfferOrder.FREE,
    reverse: Annotated[bool, typer.Option("--reverse", help="And what comes last, first.")] = False,
    each: Annotated[
        bool,
        typer.Option("--each", help="Every device: what it serves, or why it takes no work."),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what is on offer: model, memory, price, how many are free.

    Devices of the same model and price are one line; --each takes them apart, and shows those that
    take no work now too.
    """
    screen = Screen(json)
    with entered(screen, server, entry) as potluck:
        devices = list(found(potluck, wanted))
        pool = None if devices or json else potluck.resources.pool()
        url = potluck.url
    ranked = _ranked(devices, sort, reverse)
    if json:
        screen.emit({"devices": ranked})
    elif pool is not None:
        screen.err.prose(_nothing(pool, wanted, url))
    elif each:
        show_each(screen.out, ranked)
    else:
        _show_offers(screen, devices, sort, reverse)


def _ranked(devices: list[PoolDevice], sort: OfferOrder, reverse: bool) -> list[PoolDevice]:
    ranked = in_order([DeviceOffer([each]) for each in devices], sort, reverse)
    return [each.first for each in ranked]


def _show_offers(
    screen: Screen, devices: list[PoolDevice], sort: OfferOrder, reverse: bool
) -> None:
    on_offer = in_order(offers(devices), sort, reverse)
    if on_offer:
        show_offers(screen.out, on_offer)
    away = sum(not is_offered(each) for each in devices)
    if away:
        more = "more takes" if away == 1 else "more take"
        said = f"{away:,} {more} no work now" if on_offer else "None of them takes work now"
        screen.err.prose(f"{said}; `potluck gpus --each` shows why.", Tone.FAINT)


def _nothing(pool: PoolView, wanted: WantedOptions, url: str) -> str:
    """Why there is nothing to show, and what to do."""
    gpus, cpus = _total(pool.gpus), _total(pool.cpus)
    if not gpus + cpus:
        return f"The pool is empty. Bring a machine with `potluck provide {url}`."
    if wanted.kind is Kind.GPU and not gpus:
        processors = show_count(cpus, "processor")
        return f"No GPU is in this pool, but {processors}: see `potluck gpus --kind cpu`."
    if wanted.kind is Kind.CPU and not cpus:
        return f"No processor is on offer, but {show_count(gpus, 'GPU')}: see `potluck gpus`."
    total = {Kind.GPU: gpus, Kind.CPU: cpus, Kind.ANY: gpus + cpus}[wanted.kind]
    return f"None of {show_count(total, 'device')} is like that. Ask for less of it."


def _total(counts: DeviceCounts) -> int:
    return counts.free + counts.busy + counts.away
