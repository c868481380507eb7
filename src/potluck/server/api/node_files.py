"""Providers: inputs of tasks, and what attempts leave."""

from typing import Annotated, Any

from litestar import Controller, Response, get, post, put
from litestar.params import HeaderParameter, QueryParameter

from potluck.model.ids import ATTEMPT_PATTERN, AttemptId
from potluck.model.lease import Lease
from potluck.server.api import download
from potluck.server.api.body import StrictRequest
from potluck.server.api.nodes import node_id_of, owner_of
from potluck.server.api.raw_body import TakesOctets
from potluck.server.api.uploads import part_number, upload_id_of
from potluck.server.flow.submit import file_access, upload
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.files import PART_BYTES, AddFiles, BeginNodeUpload, KeepCheckpoint, Upload

_MAX_FILES_BYTES = 8 * 2**20
AttemptQuery = Annotated[str, QueryParameter(name="attempt_id", pattern=ATTEMPT_PATTERN)]
LeaseHeader = Annotated[str, HeaderParameter(name="Potluck-Lease", min_length=16, max_length=128)]


class NodeFileController(Controller):
    @get(routes.GET_INPUT.template, operation_id="get_input", media_type="application/octet-stream")
    async def get_input(
        self,
        node_id: str,
        sha256: str,
        request: StrictRequest,
        parts: Parts,
        attempt_id: AttemptQuery,
        token: LeaseHeader,
    ) -> Response[Any]:
        """The bytes of an input or checkpoint of a task that runs here, or a `Range` of them."""
        lease = Lease(AttemptId(attempt_id), token)
        owner, node = owner_of(request.user), node_id_of(node_id)
        stored = await file_access.of_attempt(parts, owner, node, lease, download.sha256_of(sha256))
        return await download.answer(request, parts, stored)

    @post(routes.BEGIN_NODE_UPLOAD.template, operation_id="begin_node_upload")
    async def begin(
        self, node_id: str, data: BeginNodeUpload, request: StrictRequest, parts: Parts
    ) -> Upload:
        """Begins to send bytes for the account whose task it is, or goes on with it."""
        owner = owner_of(request.user)
        return await upload.begin_for_node(parts, owner, node_id_of(node_id), data)

    @put(
        routes.PUT_NODE_PART.template,
        operation_id="put_node_part",
        operation_class=TakesOctets,
        request_max_body_size=PART_BYTES,
    )
    async def put_part(
        self, node_id: str, upload_id: str, number: str, request: StrictRequest, parts: Parts
    ) -> Upload:
        """The next part, as plain bytes. One that is there already may be sent again."""
        place, wanted = part_number(number), upload_id_of(upload_id)
        owner, node = owner_of(request.user), node_id_of(node_id)
        found, _ = await upload.of_node(parts, owner, node, wanted)
        return await upload.take_part(parts, found, place, request.pieces())

    @post(routes.FINISH_NODE_UPLOAD.template, operation_id="finish_node_upload", status_code=200)
    async def finish(
        self, node_id: str, upload_id: str, request: StrictRequest, parts: Parts
    ) -> Upload:
        """Puts all parts together and checks their hash; until it is complete, ask again."""
        owner, node = owner_of(request.user), node_id_of(node_id)
        found, sender = await upload.of_node(parts, owner, node, upload_id_of(upload_id))
        return await upload.finish(parts, found, sender)

    @post(
        routes.ADD_FILES.template,
        operation_id="add_files",
        status_code=204,
        request_max_body_size=_MAX_FILES_BYTES,
    )
    async def add_files(
        self, node_id: str, data: AddFiles, request: StrictRequest, parts: Parts
    ) -> None:
        """What an attempt has left: small files as they are, large ones uploaded before."""
        await file_access.add(parts, owner_of(request.user), node_id_of(node_id), data)

    @post(routes.KEEP_CHECKPOINT.template, operation_id="keep_checkpoint", status_code=204)
    async def keep_checkpoint(
        self, node_id: str, data: KeepCheckpoint, request: StrictRequest, parts: Parts
    ) -> None:
        """What the next attempt is to go on from, uploaded before."""
        await file_access.keep_checkpoint(parts, owner_of(request.user), node_id_of(node_id), data)
