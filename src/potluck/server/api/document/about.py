"""The general part of the document."""

from typing import Any, Final

from potluck import __version__

_DESCRIPTION: Final = """\
Share GPUs: submit tasks, offer machines, watch both.

**Signing in.** `POST /v1/auth/challenge`, sign the EIP-4361 message with your wallet,
`POST /v1/auth/login`. Send the access token, or an API key, as `Authorization: Bearer …`.

**Versions.** Everything is under `/v1`. Responses may gain fields. Requests are checked strictly:
an unknown field or query parameter is a 400.

**Formats.** JSON by default. Every operation with a JSON body also supports MessagePack:
`Content-Type: application/msgpack`, `Accept: application/msgpack`. Bytes are base64 in JSON
and `bin` in MessagePack, times are RFC 3339 text in JSON and timestamps in MessagePack.

**Errors** are problem details (RFC 9457), `application/problem+json`, with a stable `code`, a
sentence in `detail`, what to do about it in `hint`, and whether a retry may help.

**Pages.** Lists take `limit` and `cursor`. The `next_cursor` of a page, or its `Link` header, leads
to the next page; it is null on the last one.

**Polling.** Responses to GET carry an `ETag`. Send it as `If-None-Match` to get a 304 without a
body if nothing has changed.

**Repeating.** With an `Idempotency-Key` a request that creates something is safe to repeat: the
same key and body get the same response, another body gets a 409.
"""

IF_NONE_MATCH: Final = {"$ref": "#/components/parameters/IfNoneMatch"}
ETAG: Final = {"$ref": "#/components/headers/ETag"}
LINK: Final = {"$ref": "#/components/headers/Link"}


def opening() -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Potluck",
            "summary": "A self-hosted platform for sharing GPUs.",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "This pool."}],
        "security": [{"bearer": []}],
    }


def components() -> dict[str, Any]:
    return {
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "The access token of a session or of a node key, or an API key.",
            }
        },
        "parameters": {
            "IfNoneMatch": {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "description": "The ETag of your copy; if it is current, the response is 304.",
                "schema": {"type": "string"},
            }
        },
        "headers": {
            "ETag": {
                "description": "Identifies this response; send it as If-None-Match next time.",
                "schema": {"type": "string"},
            },
            "Link": {
                "description": "The address of the next page (`rel=next`); absent on the last one.",
                "schema": {"type": "string"},
            },
        },
    }
