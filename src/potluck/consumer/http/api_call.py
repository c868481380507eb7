"""One call of the API: route, path names, query and body out; a typed response in."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

from msgspec import Struct

from potluck.consumer.http.transport import Transport
from potluck.wire.codec import encode_json
from potluck.wire.response import decode_response
from potluck.wire.routes import Route

T = TypeVar("T")
Names = Mapping[str, str]


def call_api(
    transport: Transport,
    route: Route,
    kind: type[T],
    names: Names | None = None,
    *,
    query: Mapping[str, object] | None = None,
    body: Struct | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
) -> T:
    """Calls the route and returns the response as a value of this kind."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    path = build_path(route, names) + (f"?{urlencode(given, doseq=True)}" if given else "")
    data = None if body is None else encode_json(body)
    response = transport.call(route.method, path, data, headers, repeatable)
    return decode_response(response, kind, transport.url)


def send_command(
    transport: Transport,
    route: Route,
    names: Names | None = None,
    body: Struct | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Calls a route whose response has no body."""
    data = None if body is None else encode_json(body)
    transport.call(route.method, build_path(route, names), data, headers)


def idempotency_header() -> dict[str, str]:
    """The header with which a call that creates something can be repeated safely."""
    return {"Idempotency-Key": uuid4().hex}


def build_path(route: Route, names: Names | None = None) -> str:
    """The path of a route; each name stays one path segment, whatever characters it has."""
    safe = {name: quote(value, safe="") or "-" for name, value in (names or {}).items()}
    return route.url(**safe)
