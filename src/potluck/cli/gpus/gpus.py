"""`potluck gpus`: the devices on offer in the pool."""

from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import SignInOptions, signed_in_client
from potluck.cli.gpus.device_filter import DeviceFilterOptions, Kind, find_devices
from potluck.cli.gpus.offer import DeviceOffer, OfferOrder, group_offers, is_offered, sort_offers
from potluck.cli.gpus.tables import show_devices, show_offers
from potluck.cli.options import JsonOption, ServerOption, expand_option_groups
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.units import show_count
from potluck.wire.consumer import DeviceCounts, PoolDevice, PoolView


@expand_option_groups
def gpus(
    filters: DeviceFilterOptions,
    entry: SignInOptions,
    sort: Annotated[OfferOrder, typer.Option(help="Sort by this.")] = OfferOrder.FREE,
    reverse: Annotated[bool, typer.Option("--reverse", help="Reverse the order.")] = False,
    each: Annotated[
        bool,
        typer.Option("--each", help="One line per device: its tasks, or why it takes no work."),
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the devices on offer: model, memory, price, free ones.

    Devices of the same model and price share one line; --each shows every device, including those
    that take no work now.
    """
    screen = Screen(json)
    with signed_in_client(screen, server, entry) as potluck:
        devices = list(find_devices(potluck, filters))
        pool = None if devices or json else potluck.resources.pool()
        url = potluck.url
    ranked = _sort_devices(devices, sort, reverse)
    if json:
        screen.emit({"devices": ranked})
    elif pool is not None:
        screen.err.prose(_empty_text(pool, filters, url))
    elif each:
        show_devices(screen.out, ranked)
    else:
        _show_offers(screen, devices, sort, reverse)


def _sort_devices(devices: list[PoolDevice], sort: OfferOrder, reverse: bool) -> list[PoolDevice]:
    ranked = sort_offers([DeviceOffer([device]) for device in devices], sort, reverse)
    return [device.first for device in ranked]


def _show_offers(
    screen: Screen, devices: list[PoolDevice], sort: OfferOrder, reverse: bool
) -> None:
    on_offer = sort_offers(group_offers(devices), sort, reverse)
    if on_offer:
        show_offers(screen.out, on_offer)
    away = sum(not is_offered(device) for device in devices)
    if away:
        more = "more takes" if away == 1 else "more take"
        text = f"{away:,} {more} no work now" if on_offer else "No matching device takes work now"
        screen.err.prose(f"{text}; `potluck gpus --each` shows why.", Tone.FAINT)


def _empty_text(pool: PoolView, filters: DeviceFilterOptions, url: str) -> str:
    """Why no devices are shown, and what to do."""
    gpus, cpus = _total(pool.gpus), _total(pool.cpus)
    if not gpus + cpus:
        return f"The pool is empty. Add a machine with `potluck provide {url}`."
    if filters.kind is Kind.GPU and not gpus:
        processors = show_count(cpus, "processor")
        return f"This pool has no GPU, but {processors}: see `potluck gpus --kind cpu`."
    if filters.kind is Kind.CPU and not cpus:
        return f"This pool offers no processor, but {show_count(gpus, 'GPU')}: see `potluck gpus`."
    total = {Kind.GPU: gpus, Kind.CPU: cpus, Kind.ANY: gpus + cpus}[filters.kind]
    return f"None of {show_count(total, 'device')} matches. Relax the filters."


def _total(counts: DeviceCounts) -> int:
    return counts.free + counts.busy + counts.away
