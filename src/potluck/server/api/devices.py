"""The pool's devices: what is where, what is free, and which attempt a device serves."""

from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.ids import DeviceId, is_id
from potluck.server.api import pagination
from potluck.server.auth.caller import Caller
from potluck.server.flow.lease import device_status
from potluck.server.services import Parts
from potluck.store.nodes import device_list
from potluck.store.nodes.device_list import DeviceFilter, no_such_device
from potluck.wire import routes
from potluck.wire.consumer import DevicePage
from potluck.wire.own_machines import DeviceHistory

Cursor = Annotated[str | None, QueryParameter(name="cursor", max_length=64, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500)]
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
FreeMilli = Annotated[int, QueryParameter(name="free_milli", ge=0, le=WHOLE_DEVICE_MILLI)]


class DeviceController(Controller):
    @get(routes.LIST_DEVICES.template, operation_id="list_devices")
    async def list_devices(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
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
        """Every device that is as a task may want it, and how much of it each attempt has: which,
        only if it is yours.
        """
        _check(model, vendor, *(labels or ()))
        where = (memory_bytes, max_price, vendor, tuple(labels or ()), min_reliability)
        wanted = DeviceFilter(kind, model, free_milli, *where)
        pagination.check(cursor, "device")
        behind = None if cursor is None else DeviceId(cursor)
        async with parts.database.transaction() as connection:
            found = await device_list.page(connection, request.user.id, wanted, behind, limit)
        shown = await device_status.with_samples(parts, found)
        return DevicePage(shown, found[-1].id if len(found) == limit else None)

    @get(routes.DEVICE_HISTORY.template, operation_id="device_history")
    async def device_history(
        self, device_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> DeviceHistory:
        """How a device of yours did in the last hour, for plots."""
        if not is_id(device_id, "device"):
            raise no_such_device(device_id[:64])
        return await device_status.history(parts, request.user.id, DeviceId(device_id))


def _check(*words: str | None) -> None:
    """Of what is compared with text in the database."""
    if any("\0" in (word or "") for word in words):
        raise InvalidInput("Models, vendors and labels have no NUL in them.", "Leave it out.")
