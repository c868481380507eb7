"""The pool's machines and devices."""

from typing import Annotated, Final

from litestar.params import QueryParameter

from potluck.decide.admission import check_models
from potluck.decide.market import sum_up
from potluck.model.account import Scope
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.ids import DeviceId, NodeId
from potluck.model.market import ModelOffer, PriceRange
from potluck.server.api.area import Area
from potluck.server.api.examples.machine import NODE_VIEW, POOL_DEVICE
from potluck.server.api.examples.names import at
from potluck.server.api.http.pagination import Cursor, Limit, LongLimit, check_cursor
from potluck.server.api.http.parameters import CallerRequest, node_id_of
from potluck.server.flow.lease import device_status, owner_requests
from potluck.server.services import Services
from potluck.store.nodes import device_list, nodes, pool_totals
from potluck.store.nodes.device_list import DeviceFilter
from potluck.wire import routes
from potluck.wire.consumer import DeviceCounts, DevicePage, NodeList, NodeView, PoolView
from potluck.wire.dashboard.market import MarketView

Kind = Annotated[DeviceKind | None, QueryParameter(name="kind", required=False)]
Model = Annotated[
    str | None, QueryParameter(name="model", min_length=1, max_length=200, required=False)
]
MemoryBytes = Annotated[int, QueryParameter(name="memory_bytes", ge=0, le=2**60)]
MaxPrice = Annotated[
    int | None, QueryParameter(name="max_price_micro_per_hour", ge=0, le=2**60, required=False)
]
Vendor = Annotated[
    str | None, QueryParameter(name="vendor", min_length=1, max_length=200, required=False)
]
Labels = Annotated[list[str] | None, QueryParameter(name="label", max_items=64, required=False)]
MinReliability = Annotated[float, QueryParameter(name="min_reliability", ge=0, le=1)]
Mine = Annotated[bool, QueryParameter(name="mine", required=False)]
FreeMilli = Annotated[int, QueryParameter(name="free_milli", ge=0, le=WHOLE_DEVICE_MILLI)]


AREA: Final = Area(
    "resources",
    "The machines and devices of the pool, with model, memory, price, and how much of each "
    "is free.",
)


@AREA.operation(
    routes.LIST_DEVICES,
    Scope.POOL_READ,
    "List the pool's devices",
    response=DevicePage([POOL_DEVICE]),
)
async def list_devices(
    request: CallerRequest,
    services: Services,
    cursor: Cursor = None,
    kind: Kind = None,
    model: Model = None,
    free_milli: FreeMilli = 0,
    memory_bytes: MemoryBytes = 0,
    max_price: MaxPrice = None,
    vendor: Vendor = None,
    labels: Labels = None,
    min_reliability: MinReliability = 0.0,
    limit: Limit = 100,
) -> DevicePage:
    """Lists the devices that match all filters, and the share of each that attempts use.
    You see the ids of attempts that are yours or run on your nodes."""
    _check(model, vendor, *(labels or ()))
    check_models(model)
    where = (memory_bytes, max_price, vendor, tuple(labels or ()), min_reliability)
    filters = DeviceFilter(kind, model, free_milli, *where)
    check_cursor(cursor, "device")
    behind = None if cursor is None else DeviceId(cursor)
    async with services.database.statement() as connection:
        rows = await device_list.page(connection, request.user.id, filters, behind, limit)
    shown = await device_status.with_samples(services, rows)
    return DevicePage(shown, rows[-1].id if len(rows) == limit else None)


@AREA.operation(
    routes.LIST_NODES, Scope.POOL_READ, "List the pool's machines", response=NodeList([NODE_VIEW])
)
async def list_nodes(
    request: CallerRequest,
    services: Services,
    cursor: Cursor = None,
    limit: LongLimit = 500,
    mine: Mine = False,
) -> NodeList:
    """Lists the machines of this pool, or only yours, with their devices. A page may have fewer
    than `limit`: the last one has no `next_cursor`."""
    check_cursor(cursor, "node")
    behind = None if cursor is None else NodeId(cursor)
    async with services.database.statement() as connection:
        rows, has_more = await nodes.page(connection, request.user.id, behind, limit, mine)
    shown = await device_status.with_telemetry(services, rows)
    return NodeList(shown, rows[-1].id if has_more else None)


@AREA.operation(
    routes.SHOW_POOL,
    Scope.POOL_READ,
    "See the pool in numbers",
    response=PoolView(12, 1, DeviceCounts(9, 6, 1), DeviceCounts(4), 37, 8, 100_000),
)
async def show_pool(services: Services) -> PoolView:
    """Counts nodes, devices, free devices, waiting tasks and running attempts."""

    async def count() -> PoolView:
        async with services.database.statement() as connection:
            return await pool_totals.count_pool(connection)

    return await services.caches.pool.load(None, count)


@AREA.operation(
    routes.MARKET,
    Scope.POOL_READ,
    "See the market",
    response=MarketView(
        [
            ModelOffer(
                *(DeviceKind.GPU, "NVIDIA GeForce RTX 4090", 24 * 2**30, 9, 6),
                *(200_000, 250_000, 400_000),
                [PriceRange(200_000, 200_000, 4), PriceRange(250_000, 250_000, 5)],
                37,
            )
        ],
        37,
        10_000,
        at(9, 42),
    ),
)
async def market(services: Services) -> MarketView:
    """Returns what is on offer by model: number, prices, and how many waiting tasks would take it.
    The median price is a good one to begin with."""

    async def look() -> MarketView:
        async with services.database.statement() as connection:
            offers = await pool_totals.list_offers(connection)
            wishes = await pool_totals.list_wishes(connection)
        waiting = sum(wish.tasks for wish in wishes)
        models = sum_up(offers, wishes)
        return MarketView(models, waiting, pool_totals.COUNTED_TASKS, services.clock.now())

    return await services.caches.market.load(None, look)


@AREA.operation(routes.GET_NODE, Scope.POOL_READ, "See one machine", response=NODE_VIEW)
async def get_node(node_id: str, request: CallerRequest, services: Services) -> NodeView:
    """Returns one machine. Its owner also sees its allow list and its pending requests."""
    return await owner_requests.show(services, request.user.id, node_id_of(node_id))


def _check(*words: str | None) -> None:
    if any("\0" in (word or "") for word in words):
        raise InvalidInput("A model, vendor or label contains a NUL character.", "Remove it.")
