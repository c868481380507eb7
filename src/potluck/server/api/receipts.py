"""Receipts that nodes signed and the server countersigned."""

from typing import Annotated, Final

from litestar.params import QueryParameter

from potluck.model.account import Scope
from potluck.model.error import NotFound
from potluck.model.ids import AttemptId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason
from potluck.server.api.area import Area
from potluck.server.api.examples.names import (
    ACCOUNT,
    ATTEMPT,
    DEVICE,
    NODE,
    SIGNATURE,
    TASK,
    WALLET,
    at,
)
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor
from potluck.server.api.http.parameters import CallerRequest, node_id_of
from potluck.server.flow.settle.receipts import sign_export
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.services import Services
from potluck.store.ledger import receipts
from potluck.store.ledger.receipts import ReceiptSelection
from potluck.wire import routes
from potluck.wire.signing.receipt import (
    NO_HASH,
    Countersignature,
    ExportEnd,
    Receipt,
    ReceiptPage,
    ReceiptSide,
    ReceiptState,
    ReceiptStates,
    SignedReceipt,
)

Side = Annotated[ReceiptSide, QueryParameter(name="side")]
Node = Annotated[str | None, QueryParameter(name="node_id", max_length=64, required=False)]
Place = Annotated[int | None, QueryParameter(name="cursor", ge=1, le=2**63 - 1, required=False)]
FirstPlace = Annotated[
    int,
    QueryParameter(
        name="after",
        ge=0,
        le=2**63 - 1,
        required=False,
        description="The cursor that the export began with; 0 if it began with the first receipt.",
    ),
]
LastPlace = Annotated[int, QueryParameter(name="last", ge=0, le=2**63 - 1)]

# Examples.
_DIGEST = "7c0f3d9a" * 8
_MS = int(at(9, 40).timestamp() * 1000)
_STATE = ReceiptState(
    *(ATTEMPT, TASK, NODE, "attic", at(9, 40, 16), AttemptState.SUCCEEDED, EndReason.COMPLETED),
    *(250_000, 868, 1, 12_500, True),
)
_SIGNED = SignedReceipt(
    Receipt(
        *(WALLET, WALLET, NODE, "3f2a9c0b" * 4, 1, NO_HASH, "first"),
        *(ATTEMPT, TASK, ACCOUNT, (f"{DEVICE}:1000",), 0, True),
        *(_MS + 3_500, _MS + 16_000, 12_500, EndReason.COMPLETED, 250_000, NO_HASH),
    ),
    SIGNATURE,
    Countersignature(
        *(_DIGEST, 1, 0, 0, AttemptState.SUCCEEDED, EndReason.COMPLETED, 250_000),
        *(12_500, 868, 0, 0, _MS + 20_000),
    ),
    SIGNATURE,
)

AREA: Final = Area(
    "receipts",
    "Receipts of attempts: signed by the key of the node, countersigned by the server, in a chain. "
    "As `provider` you see those of your machines, as `consumer` those of your tasks.",
)


@AREA.operation(
    routes.LIST_RECEIPTS,
    Scope.ACCOUNT_READ,
    "List attempts and whether they have receipts",
    response=ReceiptStates([_STATE], WALLET),
)
async def list_receipts(
    request: CallerRequest,
    services: Services,
    side: Side = ReceiptSide.PROVIDER,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ReceiptStates:
    """Lists ended attempts, newest first. One without its last receipt is not complete: the receipt
    comes with a heartbeat of the node, or never from a node of an earlier version.
    """
    check_cursor(cursor, "attempt")
    async with services.database.transaction() as connection:
        states = await receipts.attempt_states(connection, request.user.id, side, cursor, limit)
    following = AttemptId(states[-1].attempt_id) if len(states) == limit else None
    return ReceiptStates(states, server_signer(services).address, following)


@AREA.operation(
    routes.EXPORT_RECEIPTS,
    Scope.ACCOUNT_READ,
    "Export receipts with both signatures",
    response=ReceiptPage([_SIGNED], None, 1),
    errors=(NotFound,),
)
async def export_receipts(
    request: CallerRequest,
    services: Services,
    side: Side = ReceiptSide.PROVIDER,
    node_id: Node = None,
    cursor: Place = None,
    limit: Limit = 200,
) -> ReceiptPage:
    """Lists receipts in the order in which the server took them, which is that of each chain."""
    selection = _selection(request, side, node_id, after=cursor or 0)
    async with services.database.transaction() as connection:
        rows = await receipts.page(connection, selection, limit)
    last = rows[-1].id if rows else selection.after
    return ReceiptPage([row.signed for row in rows], last if len(rows) == limit else None, last)


@AREA.operation(
    routes.END_RECEIPTS,
    Scope.ACCOUNT_READ,
    "Sign the end of an export",
    response=ExportEnd(WALLET, ReceiptSide.PROVIDER, ACCOUNT, 1, _DIGEST, _MS, SIGNATURE),
    errors=(NotFound,),
)
async def end_receipts(
    request: CallerRequest,
    services: Services,
    last: LastPlace,
    side: Side = ReceiptSide.PROVIDER,
    node_id: Node = None,
    after: FirstPlace = 0,
) -> ExportEnd:
    """Signs the number of receipts in an export, after `after` and up to the `last` of its last
    page, and their digest. At most 100,000 are signed at once: export more of them in parts.
    """
    return await sign_export(services, _selection(request, side, node_id, after, last))


def _selection(
    request: CallerRequest,
    side: ReceiptSide,
    node_id: str | None,
    after: int = 0,
    until: int = 2**63 - 1,
) -> ReceiptSelection:
    node = None if node_id is None else node_id_of(node_id)
    return ReceiptSelection(request.user.id, side, after, until, node)
