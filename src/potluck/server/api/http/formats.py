"""Content negotiation between JSON and MessagePack.

Only values are negotiated, not bytes, streams and pages. A problem is always JSON: its media type
is registered for JSON alone, and people read it.
"""

from typing import Any, Final

from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from potluck.model.error import NotAcceptable, PreconditionFailed

JSON: Final = "application/json"
PACKED: Final = "application/msgpack"
# The second name was in use before the first was registered.
PACKED_NAMES: Final = (PACKED, "application/x-msgpack")
_ANYTHING: Final = ("application/*", "*/*")
_READS: Final = ("GET", "HEAD")


def check(request: Request[Any, Any, Any]) -> None:
    """Runs before the handler, so that no change happens whose response is then refused."""
    if gives_value(request.route_handler):
        chosen(request)
    if request.method not in _READS:
        _check_conditions(request)


def chosen(request: Request[Any, Any, Any]) -> str:
    """The response format: JSON, unless the client prefers MessagePack."""
    accept = ",".join(request.headers.getall("accept", []))
    if not accept.strip():
        return JSON
    accepted = dict(_range(part) for part in accept.split(","))
    plain, packed = _quality(accepted, (JSON,)), _quality(accepted, PACKED_NAMES)
    if not plain and not packed:
        raise NotAcceptable(
            f"This operation cannot answer with {accept[:100]!r}.", f"Accept {JSON} or {PACKED}."
        )
    return PACKED if packed > plain else JSON


def gives_value(handler: Any) -> bool:
    """Whether it returns a value, which both formats can represent."""
    if not isinstance(handler, HTTPRouteHandler):
        return False
    field = handler.parsed_return_field
    kind = field.annotation
    if field.is_subclass_of(Response) and field.inner_types:
        kind = field.inner_types[0].annotation
    return isinstance(kind, type) and issubclass(kind, Struct)


def _range(text: str) -> tuple[str, float]:
    """A media range and its weight; an invalid weight counts as missing."""
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [parameter[2:] for parameter in parameters if parameter.startswith("q=")]
    try:
        return kind, float(weights[0]) if weights else 1.0
    except ValueError:
        return kind, 1.0


def _quality(accepted: dict[str, float], names: tuple[str, ...]) -> float:
    """The weight of the name itself, or else of a wildcard."""
    weights = [accepted[name] for name in (*names, *_ANYTHING) if name in accepted]
    return weights[0] if weights else 0.0


def _check_conditions(request: Request[Any, Any, Any]) -> None:
    """Refuses conditional changes: ignoring the condition silently would mislead the client."""
    for name in ("if-match", "if-none-match", "if-unmodified-since"):
        if request.headers.get(name, "*") != "*":
            raise PreconditionFailed(
                f"Conditional changes are not supported, so `{name}` cannot be honoured.",
                "Leave it out. The last write wins.",
            )
