"""Providers: register, lease, beat, report, send logs, show devices, leave."""

from datetime import UTC, datetime
from typing import Annotated, Any

from litestar import Controller, Request, get, patch, post
from litestar.params import QueryParameter

from potluck.model.account import Credential
from potluck.model.ids import NodeId, is_id
from potluck.model.terms import TermsChange
from potluck.server.api import pagination
from potluck.server.auth import device_statement
from potluck.server.auth.caller import Caller
from potluck.server.flow.execute import attempt_log
from potluck.server.flow.lease import device_status, lease, owner_requests
from potluck.server.flow.report import report
from potluck.server.services import Parts
from potluck.store.nodes import nodes
from potluck.store.nodes.nodes import Owner, no_such_node
from potluck.wire import routes
from potluck.wire.consumer import NodeList, NodeView
from potluck.wire.device_challenge import ChallengeAnswers, ChallengesAnswered
from potluck.wire.own_machines import LeaveNode
from potluck.wire.owner_request import OwnerOrder
from potluck.wire.provider import (
    AcquireLeases,
    Heartbeat,
    HeartbeatAnswer,
    LeasesGranted,
    LogAppended,
    LogChunk,
    NodeRegistered,
    ReportAnswers,
)
from potluck.wire.strict_types import StrictRegisterNode, StrictReports

_MAX_LOG_CHUNK_BYTES = 4 * 2**20
_MAX_REPORT_BYTES = 4 * 2**20  # what functions returned is in it
_FOR_NOW = LeaveNode()
Cursor = Annotated[str | None, QueryParameter(name="cursor", max_length=64, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000)]


class NodeController(Controller):
    @get(routes.LIST_NODES.template, operation_id="list_nodes")
    async def list_nodes(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Cursor = None,
        limit: Limit = 500,
    ) -> NodeList:
        """The machines of this pool, with their devices."""
        pagination.check(cursor, "node")
        behind = None if cursor is None else NodeId(cursor)
        async with parts.database.transaction() as connection:
            found = await nodes.page(connection, request.user.id, behind, limit)
        shown = await device_status.with_telemetry(parts, found)
        return NodeList(shown, found[-1].id if len(found) == limit else None)

    @get(routes.GET_NODE.template, operation_id="get_node")
    async def get_node(
        self, node_id: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> NodeView:
        """One machine; its owner also sees whom it takes tasks from, and what it is yet to do."""
        return await owner_requests.show(parts, request.user.id, node_id_of(node_id))

    @patch(routes.CHANGE_TERMS.template, operation_id="change_terms", status_code=202)
    async def change_terms(
        self, node_id: str, data: TermsChange, request: Request[Caller, Any, Any], parts: Parts
    ) -> NodeView:
        """Asks a machine of yours to change its terms; a pause holds at once."""
        return await owner_requests.change(parts, request.user, node_id_of(node_id), data)

    @post(routes.GIVE_ORDER.template, operation_id="give_order", status_code=202)
    async def give_order(
        self, node_id: str, data: OwnerOrder, request: Request[Caller, Any, Any], parts: Parts
    ) -> NodeView:
        """Wants devices back, or lets a machine of yours finish what runs and end."""
        return await owner_requests.order(parts, request.user, node_id_of(node_id), data)

    @post(routes.REGISTER_NODE.template, operation_id="register_node")
    async def register(
        self, data: StrictRegisterNode, request: Request[Caller, Any, Any], parts: Parts
    ) -> NodeRegistered:
        """Offers a machine and its devices to the pool."""
        owner = owner_of(request.user)
        await device_statement.check(parts, owner, data, datetime.now(UTC))
        return await lease.register(parts, owner, data)

    @post(routes.ACQUIRE_LEASES.template, operation_id="acquire_leases", status_code=200)
    async def acquire(
        self, node_id: str, data: AcquireLeases, request: Request[Caller, Any, Any], parts: Parts
    ) -> LeasesGranted:
        """Waits for work. One answer carries all that the node was granted."""
        return await lease.acquire(parts, owner_of(request.user), node_id_of(node_id), data)

    @post(routes.HEARTBEAT.template, operation_id="heartbeat", status_code=200)
    async def heartbeat(
        self, node_id: str, data: Heartbeat, request: Request[Caller, Any, Any], parts: Parts
    ) -> HeartbeatAnswer:
        """Renews every lease of the node, and brings back what to stop."""
        return await lease.heartbeat(parts, owner_of(request.user), node_id_of(node_id), data)

    @post(
        routes.REPORT.template,
        operation_id="report",
        status_code=200,
        request_max_body_size=_MAX_REPORT_BYTES,
    )
    async def report(
        self, node_id: str, data: StrictReports, request: Request[Caller, Any, Any], parts: Parts
    ) -> ReportAnswers:
        """How attempts go and how they ended; an answer for each."""
        return await report.report(parts, owner_of(request.user), node_id_of(node_id), data)

    @post(
        routes.APPEND_LOG.template,
        operation_id="append_log",
        status_code=200,
        request_max_body_size=_MAX_LOG_CHUNK_BYTES,
    )
    async def append_log(
        self, node_id: str, data: LogChunk, request: Request[Caller, Any, Any], parts: Parts
    ) -> LogAppended:
        """Log pieces of a live attempt; in MessagePack their bytes need no base64."""
        return await attempt_log.append_log(
            parts, owner_of(request.user), node_id_of(node_id), data
        )

    @post(routes.ANSWER_CHALLENGES.template, operation_id="answer_challenges", status_code=200)
    async def answer_challenges(
        self,
        node_id: str,
        data: ChallengeAnswers,
        request: Request[Caller, Any, Any],
        parts: Parts,
    ) -> ChallengesAnswered:
        """Shows that the node can compute on devices that another wallet shows too."""
        owner = owner_of(request.user)
        return await lease.answer_challenges(parts, owner, node_id_of(node_id), data)

    @post(routes.LEAVE.template, operation_id="leave", status_code=204)
    async def leave(
        self,
        node_id: str,
        request: Request[Caller, Any, Any],
        parts: Parts,
        data: LeaveNode = _FOR_NOW,
    ) -> None:
        """The node goes: its devices are free, and what it held is given back at once."""
        owner = owner_of(request.user)
        await lease.leave(
            parts, owner, node_id_of(node_id), wish=data.wish, is_for_good=data.is_for_good
        )


def owner_of(caller: Caller) -> Owner:
    """A node key speaks for the node that it registered, and for no other of its wallet."""
    assert caller.credential is Credential.NODE, "the policy lets in nobody else"
    return Owner(caller.id, caller.credential_id)


def node_id_of(text: str) -> NodeId:
    if not is_id(text, "node"):
        raise no_such_node(text[:64])
    return NodeId(text)
