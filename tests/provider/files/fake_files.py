"""The part of a fake server that takes files and hands them out, in memory."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import web

from potluck.model.error import Conflict, NotFound, PotluckError
from potluck.wire import routes
from potluck.wire.codec import decode_json, decode_packed, encode_json
from potluck.wire.files import AddFiles, BeginNodeUpload, KeepCheckpoint, Upload
from potluck.wire.problem import CONTENT_TYPE, to_problem

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeFiles:
    """Its public fields are what it has, and how it should misbehave."""

    def __init__(self) -> None:
        self.part_bytes = 1000
        self.blobs: dict[str, bytes] = {}
        self.uploads: dict[str, bytearray] = {}  # by hash, which is also the id here
        self.added: dict[str, bytes] = {}  # by path
        self.checkpoints: list[bytes] = []
        self.asked: list[str] = []  # the ranges of downloads
        self.parts = 0
        self.cuts: list[int] = []  # after so many bytes the next download hangs up
        self.damages = 0  # so many downloads have a wrong byte
        self.ignores_ranges = False
        self.goes_on = False  # downloads never end
        self.elsewhere: str | None = None  # where downloads are sent to
        self.refusal: PotluckError | None = None  # of what is uploaded or added
        self.forgets_uploads = 0

    def keep(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return sha256

    def routes(self) -> list[tuple[routes.Route, Answer]]:
        pairs: list[tuple[routes.Route, Answer]] = [
            (routes.GET_INPUT, self.get),
            (routes.BEGIN_NODE_UPLOAD, self.begin),
            (routes.PUT_NODE_PART, self.put),
            (routes.FINISH_NODE_UPLOAD, self.finish),
            (routes.ADD_FILES, self.add),
            (routes.KEEP_CHECKPOINT, self.checkpoint),
        ]
        return [(route, _told(handler)) for route, handler in pairs]

    async def get(self, request: web.Request) -> web.StreamResponse:
        assert request.query["attempt_id"] and request.headers["Potluck-Lease"]
        if self.elsewhere is not None:
            return web.Response(status=307, headers={"Location": self.elsewhere})
        return await self.download(request)

    async def download(self, request: web.Request) -> web.StreamResponse:
        data = self.blobs.get(request.match_info["sha256"])
        if data is None:
            raise NotFound("There is no such blob.")
        range_header = request.headers.get("Range", "")
        self.asked.append(range_header)
        first, _, last = range_header.removeprefix("bytes=").partition("-")
        start = 0 if self.ignores_ranges or not range_header else int(first)
        end = len(data) if self.ignores_ranges or not last else int(last) + 1
        body = bytearray(data[start:end])
        if self.damages:
            self.damages -= 1
            body[0] ^= 1
        response = web.StreamResponse(status=206 if start or end < len(data) else 200)
        if not self.goes_on:
            response.content_length = len(body)
        await response.prepare(request)
        if self.cuts:
            await response.write(bytes(body[: self.cuts.pop(0)]))
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(bytes(body))
        with suppress(ConnectionError):
            while self.goes_on:
                await asyncio.sleep(0.01)
                await response.write(b"more")
        return response

    async def begin(self, request: web.Request) -> web.StreamResponse:
        self._refuse()
        sha256 = decode_json(await request.read(), BeginNodeUpload).blob.sha256
        self.uploads.setdefault(sha256, bytearray())
        return self._upload(sha256, 201)

    async def put(self, request: web.Request) -> web.StreamResponse:
        sha256, number = request.match_info["upload_id"], int(request.match_info["number"])
        if self.forgets_uploads:
            self.forgets_uploads -= 1
            self.uploads.pop(sha256)
        if sha256 not in self.uploads:
            raise NotFound("There is no such upload.")
        if number != self._parts_done(sha256):
            raise Conflict("That is not the next part.")
        self.uploads[sha256] += await request.read()
        self.parts += 1
        return self._upload(sha256)

    async def finish(self, request: web.Request) -> web.StreamResponse:
        sha256 = request.match_info["upload_id"]
        data = bytes(self.uploads.pop(sha256))
        assert self.keep(data) == sha256, "not what was said"
        return self._upload(sha256)

    async def add(self, request: web.Request) -> web.StreamResponse:
        self._refuse()
        for file in decode_packed(await request.read(), AddFiles).files:
            data = file.data if file.blob is None else self.blobs[file.blob.sha256]
            self.added[file.path] = data
        return web.Response(status=204)

    async def checkpoint(self, request: web.Request) -> web.StreamResponse:
        kept_checkpoint = decode_json(await request.read(), KeepCheckpoint)
        self.checkpoints.append(self.blobs[kept_checkpoint.blob.sha256])
        return web.Response(status=204)

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def _parts_done(self, sha256: str) -> int:
        return -(-len(self.uploads.get(sha256, b"")) // self.part_bytes)

    def _upload(self, sha256: str, status: int = 200) -> web.Response:
        parts_done = self._parts_done(sha256)
        upload = Upload(sha256, self.part_bytes, parts_done, sha256 in self.blobs)
        return web.Response(status=status, body=encode_json(upload))


def _told(handler: Answer) -> Answer:
    async def respond(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except PotluckError as error:
            body = encode_json(to_problem(error))
            return web.Response(status=error.status, body=body, content_type=CONTENT_TYPE)

    return respond
