"""Strict query parameters: an unknown name is an error, as in bodies.

A filter with a misspelled name would silently not filter.
"""

from enum import Enum
from functools import cache
from typing import Any

from litestar import Request
from litestar.enums import ParamType
from litestar.handlers import HTTPRouteHandler
from litestar.params import ParameterKwarg
from litestar.typing import FieldDefinition

from potluck.model.error import InvalidInput
from potluck.wire import routes

_SHOWN, _SHOWN_CHARACTERS = 5, 64


def check(request: Request[Any, Any, Any]) -> None:
    """Only the API is strict: browsers and proxies add parameters to links to pages."""
    if not request.scope["query_string"] or not request.scope["path"].startswith(routes.PREFIX):
        return
    known = known_names(request.route_handler)
    if unknown := sorted(set(request.query_params) - known):
        shown = ", ".join(f"`{name[:_SHOWN_CHARACTERS]}`" for name in unknown[:_SHOWN])
        raise InvalidInput(f"Unknown query parameter: {shown}.", _hint(known))


@cache
def known_names(handler: HTTPRouteHandler) -> frozenset[str]:
    fields = handler.parsed_fn_signature.parameters.items()
    return frozenset(public_name(handler, name) for name, field in fields if _is_query(field))


def public_name(handler: HTTPRouteHandler, name: str) -> str:
    """The name of a parameter in the API, which may differ from that of the argument."""
    field = handler.parsed_fn_signature.parameters.get(name)
    definition = None if field is None else _definition(field)
    return name if definition is None else definition.name or name


def choices(handler: HTTPRouteHandler, name: str) -> list[str]:
    """The allowed values of a parameter of an enum type."""
    field = handler.parsed_fn_signature.parameters.get(name)
    return [] if field is None else [str(each.value) for kind in _enums(field) for each in kind]


def _enums(field: FieldDefinition) -> list[type[Enum]]:
    if isinstance(field.annotation, type) and issubclass(field.annotation, Enum):
        return [field.annotation]
    return [kind for inner in field.inner_types for kind in _enums(inner)]


def _is_query(field: FieldDefinition) -> bool:
    definition = _definition(field)
    return definition is not None and definition.param_type is ParamType.QUERY


def _definition(field: FieldDefinition) -> ParameterKwarg | None:
    found = field.kwarg_definition
    return found if isinstance(found, ParameterKwarg) else None


def _hint(known: frozenset[str]) -> str:
    return f"Choose from: {', '.join(sorted(known))}." if known else "This operation takes none."
