"""One call of the API: a route and its names, a query or a body out, a typed answer in."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

from msgspec import Struct

from potluck.consumer.http.transport import Transport
from potluck.wire.codec import encode_json
from potluck.wire.response import decoded
from potluck.wire.routes import Route

T = TypeVar("T")
Names = Mapping[str, str]


def ask(
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
    """What the server answers, as a value of this kind."""
    known = {name: value for name, value in (query or {}).items() if value is not None}
    path = path_of(route, names) + (f"?{urlencode(known, doseq=True)}" if known else "")
    sent = None if body is None else encode_json(body)
    answer = transport.call(route.method, path, sent, headers, repeatable)
    return decoded(answer, kind, transport.url)


def tell(
    transport: Transport,
    route: Route,
    names: Names | None = None,
    body: Struct | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """For calls that answer with nothing but that it is done."""
    sent = None if body is None else encode_json(body)
    transport.call(route.method, path_of(route, names), sent, headers)


def idempotent() -> dict[str, str]:
    """Lets a call that makes something be repeated until it is heard."""
    return {"Idempotency-Key": uuid4().hex}


def path_of(route: Route, names: Names | None = None) -> str:
    """A path segment stays one segment, whatever somebody typed."""
    safe = {name: quote(value, safe="") or "-" for name, value in (names or {}).items()}
    return route.url(**safe)
