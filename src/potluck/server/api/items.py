"""The items of an array that have failed."""

from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from potluck.model.task import MOST_ITEMS
from potluck.server.api.tasks import task_id_of
from potluck.server.auth.caller import Caller
from potluck.server.services import Parts
from potluck.store.tasks import item_failures, tasks
from potluck.wire import routes
from potluck.wire.consumer import FailedItemPage

Cursor = Annotated[int, QueryParameter(name="cursor", ge=-1, le=MOST_ITEMS)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000)]


class ItemController(Controller):
    @get(routes.FAILED_ITEMS.template, operation_id="failed_items")
    async def failed_items(
        self,
        task_id: str,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Cursor = -1,
        limit: Limit = 100,
    ) -> FailedItemPage:
        """Items of an array that have failed, in order, behind the item `cursor`."""
        wanted = task_id_of(task_id)
        async with parts.database.transaction() as connection:
            await tasks.get(connection, wanted, request.user.id)
            found = await item_failures.page(connection, wanted, cursor, limit)
        return FailedItemPage(found, found[-1].item if len(found) == limit else None)
