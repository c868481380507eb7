"""Consumers: why does it wait?"""

from typing import Any

from litestar import Controller, Request, get

from potluck.server.api.tasks import task_id_of
from potluck.server.auth.caller import Caller
from potluck.server.flow.explain import explain
from potluck.server.parts import Parts
from potluck.wire import routes
from potluck.wire.consumer import Explanation


class ExplainController(Controller):
    tags = ("tasks",)

    @get(routes.EXPLAIN_TASK.template, operation_id="explain_task")
    async def explain_task(
        self, task_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> Explanation:
        """Why a task waits: which nodes refused it, what would help, and when it may start."""
        return await explain(parts, request.user.id, task_id_of(task_id))
