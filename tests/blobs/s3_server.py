"""A small server that speaks S3 as far as Potluck needs it, with everything in memory.

It checks who signed, not what: that is the store's duty, and the library's.
"""

import hashlib
import itertools
import re
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape, unescape

from aiohttp import web

ACCESS_KEY = "potluck-tests"
BUCKET = "pool"


class S3Server:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_broken = False
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._numbers = itertools.count(1)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{bucket}", self._answer)
        app.router.add_route("*", "/{bucket}/{key:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        authorisation = request.headers.get("authorization", "") + request.query_string
        if self.is_broken:
            return web.Response(status=500)
        if ACCESS_KEY not in unquote(authorisation) or request.match_info["bucket"] != BUCKET:
            return web.Response(status=403)
        key = request.match_info.get("key", "")
        if not key:
            return await self._of_bucket(request)
        if request.method == "PUT":
            return await self._put(request, key)
        if request.method == "POST":
            return await self._multipart(request, key)
        return self._get(request, key)

    async def _put(self, request: web.Request, key: str) -> web.Response:
        data = await request.read()
        if "uploadId" in request.query:
            self._uploads[request.query["uploadId"]][int(request.query["partNumber"])] = data
        else:
            self.objects[key] = data
        return web.Response(headers={"ETag": f'"{hashlib.md5(data).hexdigest()}"'})

    async def _multipart(self, request: web.Request, key: str) -> web.Response:
        if "uploads" in request.query:
            upload_id = f"upload-{next(self._numbers)}"
            self._uploads[upload_id] = {}
            return _xml(
                "InitiateMultipartUploadResult",
                f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key>"
                f"<UploadId>{upload_id}</UploadId>",
            )
        parts = self._uploads.pop(request.query["uploadId"])
        self.objects[key] = b"".join(parts[number] for number in sorted(parts))
        return _xml("CompleteMultipartUploadResult", '<ETag>"whole"</ETag>')

    async def _of_bucket(self, request: web.Request) -> web.Response:
        if "delete" in request.query:
            keys = re.findall("<Key>(.*?)</Key>", await request.text())
            for key in keys:
                self.objects.pop(unescape(key), None)
            deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            return _xml("DeleteResult", deleted)
        prefix = request.query.get("prefix", "")
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>x</ETag></Contents>"
            for key, data in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        return _xml("ListBucketResult", f"<IsTruncated>false</IsTruncated>{entries}")

    def _get(self, request: web.Request, key: str) -> web.Response:
        data = self.objects.get(key)
        if data is None:
            return web.Response(status=404)
        headers: dict[str, Any] = {"ETag": '"x"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if match is None:
            return web.Response(body=data, headers=headers)
        start, last = int(match[1]), min(int(match[2]), len(data) - 1)
        if start > last:
            return web.Response(status=416)
        headers["Content-Range"] = f"bytes {start}-{last}/{len(data)}"
        return web.Response(status=206, body=data[start : last + 1], headers=headers)


def _xml(name: str, inside: str) -> web.Response:
    body = f'<?xml version="1.0" encoding="UTF-8"?><{name}>{inside}</{name}>'
    return web.Response(text=body, content_type="application/xml")
