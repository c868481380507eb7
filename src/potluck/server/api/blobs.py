"""Consumers: what tasks have left, and the bytes of one's own blobs."""

from typing import Annotated, Any

from litestar import Controller, Request, Response, get
from litestar.params import QueryParameter

from potluck.model.error import InvalidInput
from potluck.server.api import download
from potluck.server.api.tasks import AttemptNumber, Limit, task_id_of
from potluck.server.auth.caller import Caller
from potluck.server.flow.submit import file_access
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.files import TaskFiles

Path = Annotated[str | None, QueryParameter(name="cursor", max_length=1_000, required=False)]


class BlobController(Controller):
    @get(routes.TASK_FILES.template, operation_id="task_files")
    async def task_files(
        self,
        task_id: str,
        request: Request[Caller, Any, Any],
        parts: Parts,
        attempt: AttemptNumber = None,
        cursor: Path = None,
        limit: Limit = 500,
    ) -> TaskFiles:
        """What the newest attempt that left any has left, or the attempt with this number."""
        if "\0" in (cursor or ""):
            raise InvalidInput("That cursor is none.", "Use `next_cursor` of the page before.")
        wanted = task_id_of(task_id)
        return await file_access.of_task(parts, request.user.id, wanted, attempt, cursor, limit)

    @get(routes.GET_BLOB.template, operation_id="get_blob", media_type="application/octet-stream")
    async def get_blob(
        self, sha256: str, request: Request[Caller, Any, Any], parts: Parts
    ) -> Response[Any]:
        """The bytes of a blob of yours, or a `Range` of them."""
        stored = await file_access.of_account(parts, request.user.id, download.sha256_of(sha256))
        return await download.answer(request, parts, stored)
