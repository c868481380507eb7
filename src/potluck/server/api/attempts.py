"""The attempts at a task, beyond the newest few that it is shown with."""

from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from potluck.model.task import MOST_ITEMS
from potluck.server.api.tasks import task_id_of
from potluck.server.auth.caller import Caller
from potluck.server.services import Parts
from potluck.store.attempts import attempt_list
from potluck.store.tasks import tasks
from potluck.wire import routes
from potluck.wire.consumer import AttemptPage

Before = Annotated[int | None, QueryParameter(name="cursor", ge=1, le=2**31 - 1, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500)]
Item = Annotated[int | None, QueryParameter(name="item", ge=0, le=MOST_ITEMS, required=False)]


class AttemptController(Controller):
    @get(routes.LIST_ATTEMPTS.template, operation_id="list_attempts")
    async def list_attempts(
        self,
        task_id: str,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Before = None,
        limit: Limit = 50,
        item: Item = None,
    ) -> AttemptPage:
        """Attempts, the newest first; of an array, those that were granted this item.

        A page of these may be empty and still have a `next_cursor`.
        """
        async with parts.database.transaction() as connection:
            task = await tasks.get(connection, task_id_of(task_id), request.user.id)
            return await attempt_list.page(connection, task, cursor, limit, item)
