"""What a task would cost where it is cheapest, as `allowance` in queries/tasks.sql works it out."""

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row


def cheapest(data: Data, cores: int, count: int) -> int | None:
    prices = [_price(node, device, cores) for node, device in _offered(data)]
    return min(prices) // 1000 * count if prices else None


def _offered(data: Data) -> list[tuple[Row, Row]]:
    """Devices that could get work, with their nodes."""
    return [
        (node, device)
        for node in data.nodes.all()
        if node["state"] == "online"
        for device in data.devices.of("node", node["id"])
        if device["is_present"] and device["standing"] == "bound"
    ]


def _price(node: Row, device: Row, cores: int) -> int:
    milli = max(1, 1000 * cores // node["cores"]) if device["kind"] == "cpu" else 1000
    price: int = device["price_micro_per_hour"]
    return price * milli
