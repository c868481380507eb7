"""Why does it wait, and would it? For consumers of their tasks, and for owners of their nodes."""

from typing import Any

from litestar import Controller, Request, get, post

from potluck.server.api.nodes import node_id_of
from potluck.server.api.tasks import task_id_of
from potluck.server.auth.caller import Caller
from potluck.server.flow.schedule.explain_node import explain_node
from potluck.server.flow.schedule.explain_task import explain
from potluck.server.flow.submit.estimate import estimate
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.consumer import Explanation
from potluck.wire.estimate import Estimate
from potluck.wire.own_machines import NodeExplanation
from potluck.wire.strict_types import StrictTaskRequest


class ExplainController(Controller):
    @post(routes.ESTIMATE_TASK.template, operation_id="estimate_task", status_code=200)
    async def estimate_task(
        self, data: StrictTaskRequest, request: Request[Caller, Any, Any], parts: Parts
    ) -> Estimate:
        """What a task would meet if it were submitted now: who could take it, for how much, and
        when. Nothing is stored, and nothing is promised."""
        await parts.limiter.check_estimate(request.user.id)
        return await estimate(parts, request.user.id, data)

    @get(routes.EXPLAIN_TASK.template, operation_id="explain_task")
    async def explain_task(
        self, task_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> Explanation:
        """Why a task waits: which nodes refused it, what would help, and when it may start."""
        return await explain(parts, request.user.id, task_id_of(task_id))

    @get(routes.EXPLAIN_NODE.template, operation_id="explain_node")
    async def explain_node(
        self, node_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> NodeExplanation:
        """Why your node gets no work: what keeps waiting tasks from it, and what would help."""
        return await explain_node(parts, request.user.id, node_id_of(node_id))
