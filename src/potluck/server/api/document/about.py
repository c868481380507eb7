"""What the document says about the API as a whole."""

from typing import Any, Final

from potluck import __version__

_DESCRIPTION: Final = """\
Everyone brings a GPU: submit tasks, offer machines, watch both.

**Signing in.** `POST /v1/auth/challenge`, sign the EIP-4361 message with your wallet,
`POST /v1/auth/login`. Send the access token, or an API key, as `Authorization: Bearer …`.

**Versions.** Everything is under `/v1`. Answers may grow fields; what you send is held to the
letter: a field or a query parameter that is not known is a 400.

**Formats.** JSON by default. Every operation that takes or gives JSON takes and gives MessagePack
too: `Content-Type: application/msgpack`, `Accept: application/msgpack`. Bytes are base64 in JSON
and `bin` in MessagePack, times are RFC 3339 text in JSON and timestamps in MessagePack.

**Errors** are problem details (RFC 9457), `application/problem+json`, with a stable `code`, a
sentence for a person in `detail`, what to do about it in `hint`, and whether trying again may help.

**Pages.** Lists take `limit` and `cursor`; `next_cursor` of a page, or its `Link` header, leads to
the next one, and is null on the last.

**Polling.** Answers to GET carry an `ETag`; send it as `If-None-Match`, and what has not changed
is a 304 without a body.

**Repeating.** With an `Idempotency-Key` a request that makes something may be sent again: the same
key and body get the same answer, another body gets a 409.
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
                "description": "The ETag of what you have: if it is still that, 304.",
                "schema": {"type": "string"},
            }
        },
        "headers": {
            "ETag": {
                "description": "Names this very answer; send it as If-None-Match next time.",
                "schema": {"type": "string"},
            },
            "Link": {
                "description": "With `rel=next`, where the next page is; not on the last one.",
                "schema": {"type": "string"},
            },
        },
    }
