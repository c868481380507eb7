"""`potluck provider suggest-price`: what devices similar to mine earned last week."""

from potluck.cli.account.ensure_signed_in import owner_client
from potluck.cli.options import JsonOption, ServerOption
from potluck.cli.provider.resolve_device import pick_devices
from potluck.cli.provider.target import DevicesArgument, NodeOption
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.units import show_amount


def suggest_price(
    devices: DevicesArgument = None,
    node: NodeOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what devices similar to mine earned last week.

    Set a price with `potluck provider set price=0.25`.
    """
    from potluck.cli.provider.remote import RemoteTarget

    screen = Screen(json)
    with owner_client(screen, server) as potluck:
        _, view = (target := RemoteTarget(potluck, node)).view()
        wanted = pick_devices(devices or (), target.choices())
        chosen = [
            device for device in view.devices if not wanted or device.description.uuid in wanted
        ]
        suggestions = [potluck.own_nodes.suggest_price(device.id) for device in chosen]
    if json:
        screen.emit({"suggestions": suggestions})
        return
    for device, suggestion in zip(chosen, suggestions, strict=True):
        price = show_amount(device.description.terms.price_micro_per_hour)
        screen.out.line(f"{printable(device.description.model)}, now {price} an hour", Tone.STRONG)
        screen.out.prose(suggestion.sentence)
