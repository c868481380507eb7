"""Prices: what devices cost, cost before, and what similar ones earned."""

from typing import Final

from potluck.decide.price_suggestion import suggest_price as suggest
from potluck.model.account import Scope
from potluck.model.ids import DeviceId, is_id
from potluck.server.api.area import Area
from potluck.server.api.examples.names import DEVICE, at
from potluck.server.api.http.pagination import Limit
from potluck.server.api.http.parameters import CallerRequest
from potluck.server.services import Services
from potluck.store.nodes import prices
from potluck.store.nodes.device_list import no_such_device
from potluck.wire import routes
from potluck.wire.own_machines import DevicePrice, PriceHistory, PriceSuggestion

_SENTENCE = "Similar devices earned 0.21 to 0.34 an hour last week, and were busy 61 % of the time."

AREA: Final = Area(
    "prices",
    "What devices cost now and before, and what similar ones earned. Amounts are in "
    "millionths of a credit, for an hour of a whole device.",
)


@AREA.operation(
    routes.DEVICE_PRICES,
    Scope.POOL_READ,
    "See what a device cost",
    response=PriceHistory(
        DEVICE, [DevicePrice(at(9, 30), 250_000), DevicePrice(at(8, 0), 200_000)]
    ),
)
async def device_prices(
    device_id: str, request: CallerRequest, services: Services, limit: Limit = 100
) -> PriceHistory:
    """Lists the prices that a device of the pool had, newest first."""
    async with services.database.statement() as connection:
        history = await prices.read_history(connection, _device(device_id), request.user.id, limit)
    return PriceHistory(_device(device_id), history)


@AREA.operation(
    routes.SUGGEST_PRICE,
    Scope.POOL_READ,
    "See what devices similar to yours earned",
    response=PriceSuggestion(DEVICE, _SENTENCE, 210_000, 340_000, 61),
)
async def suggest_price(
    device_id: str, request: CallerRequest, services: Services
) -> PriceSuggestion:
    """Says what devices similar to yours earned in the last week, if enough owners had work."""
    async with services.database.statement() as connection:
        work = await prices.read_similar(connection, _device(device_id), request.user.id)
    suggested = suggest(work)
    return PriceSuggestion(
        _device(device_id),
        suggested.sentence,
        suggested.low_micro_per_hour,
        suggested.high_micro_per_hour,
        suggested.busy_percent,
    )


def _device(text: str) -> DeviceId:
    if not is_id(text, "device"):
        raise no_such_device(text[:64])
    return DeviceId(text)
