"""Consumers: uploads in parts."""

from litestar import Controller, post, put

from potluck.model.error import InvalidInput
from potluck.model.ids import is_id
from potluck.server.api.body import StrictRequest
from potluck.server.api.raw_body import TakesOctets
from potluck.server.flow.submit import upload
from potluck.server.flow.submit.upload import no_such_upload
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.files import MOST_PARTS, PART_BYTES, BeginUpload, Upload


class UploadController(Controller):
    @post(routes.BEGIN_UPLOAD.template, operation_id="begin_upload")
    async def begin(self, data: BeginUpload, request: StrictRequest, parts: Parts) -> Upload:
        """Begins to send bytes, or goes on with it. Complete at once if you have them here."""
        return await upload.begin(parts, request.user.id, data.blob)

    @put(
        routes.PUT_PART.template,
        operation_id="put_part",
        operation_class=TakesOctets,
        request_max_body_size=PART_BYTES,
    )
    async def put_part(
        self, upload_id: str, number: str, request: StrictRequest, parts: Parts
    ) -> Upload:
        """The next part, as plain bytes. One that is there already may be sent again."""
        place = part_number(number)
        found = await upload.of_account(parts, request.user.id, upload_id_of(upload_id))
        return await upload.take_part(parts, found, place, request.pieces())

    @post(routes.FINISH_UPLOAD.template, operation_id="finish_upload", status_code=200)
    async def finish(self, upload_id: str, request: StrictRequest, parts: Parts) -> Upload:
        """Puts all parts together and checks their hash; until it is complete, ask again."""
        found = await upload.of_account(parts, request.user.id, upload_id_of(upload_id))
        return await upload.finish(parts, found)


def upload_id_of(text: str) -> str:
    if not is_id(text, "upload"):
        raise no_such_upload(text)
    return text


def part_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 7 and int(text) < MOST_PARTS):
        raise InvalidInput(f"{text[:64]!r} is not the number of a part.", "Count them from 0.")
    return int(text)
