"""JSON or MessagePack: what a client says that it sends, and what it takes.

Only values are negotiated. Bytes, streams and pages are what they are, and a problem is always
JSON: its type is registered for that alone, and a person may have to read it.
"""

from typing import Any, Final

from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from potluck.model.error import NotAcceptable, PreconditionFailed

JSON: Final = "application/json"
PACKED: Final = "application/msgpack"
# The second was in use before the first was registered.
PACKED_NAMES: Final = (PACKED, "application/x-msgpack")
_ANYTHING: Final = ("application/*", "*/*")
_READS: Final = ("GET", "HEAD")


def check(request: Request[Any, Any, Any]) -> None:
    """Before anything is done: nobody is to be refused an answer to what has happened."""
    if gives_value(request.route_handler):
        chosen(request)
    if request.method not in _READS:
        _check_conditions(request)


def chosen(request: Request[Any, Any, Any]) -> str:
    """What to answer with: JSON, unless the client would rather have MessagePack."""
    said = ",".join(request.headers.getall("accept", []))
    if not said.strip():
        return JSON
    accepted = dict(_range(each) for each in said.split(","))
    plain, packed = _quality(accepted, (JSON,)), _quality(accepted, PACKED_NAMES)
    if not plain and not packed:
        raise NotAcceptable(
            f"You accept {said[:100]!r}, and there is none of it here.",
            f"Accept {JSON} or {PACKED}.",
        )
    return PACKED if packed > plain else JSON


def gives_value(handler: Any) -> bool:
    """Whether it answers with a value, which has a form in both formats."""
    if not isinstance(handler, HTTPRouteHandler):
        return False
    field = handler.parsed_return_field
    kind = field.annotation
    if field.is_subclass_of(Response) and field.inner_types:
        kind = field.inner_types[0].annotation
    return isinstance(kind, type) and issubclass(kind, Struct)


def _range(text: str) -> tuple[str, float]:
    """A media range and how much it is wanted; a weight that is none counts as not said."""
    kind, *parameters = (each.strip().lower() for each in text.split(";"))
    weights = [each[2:] for each in parameters if each.startswith("q=")]
    try:
        return kind, float(weights[0]) if weights else 1.0
    except ValueError:
        return kind, 1.0


def _quality(accepted: dict[str, float], names: tuple[str, ...]) -> float:
    """By the name itself if it was said, else by what stands for it."""
    said = [accepted[name] for name in (*names, *_ANYTHING) if name in accepted]
    return said[0] if said else 0.0


def _check_conditions(request: Request[Any, Any, Any]) -> None:
    """Nothing is changed here by its version: what asks for that would be believed in vain."""
    for name in ("if-match", "if-none-match", "if-unmodified-since"):
        if request.headers.get(name, "*") != "*":
            raise PreconditionFailed(
                f"Nothing here is changed by its version, so `{name}` can not hold.",
                "Leave it out. What is sent replaces what was said before.",
            )
