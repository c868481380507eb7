"""Strict parameters: an unknown name in the query is an error, as in bodies.

A filter with a misspelled name would silently not filter. A parameter that is given twice is an
error too, unless it is a list: a proxy and this server might each pick a different one.
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
    if not request.scope["path"].startswith(routes.PREFIX):
        return
    for name in single_names(request.route_handler, ParamType.HEADER):
        if len(request.headers.getall(name, [])) > 1:
            raise InvalidInput(f"The header `{name}` is given more than once.", "Send it once.")
    if not request.scope["query_string"]:
        return
    _check_query(request)


def _check_query(request: Request[Any, Any, Any]) -> None:
    names = known_names(request.route_handler)
    if unknown := sorted(set(request.query_params) - names):
        shown = ", ".join(f"`{name[:_SHOWN_CHARACTERS]}`" for name in unknown[:_SHOWN])
        raise InvalidInput(f"Unknown query parameter: {shown}.", _hint(names))
    for name in single_names(request.route_handler, ParamType.QUERY):
        if len(request.query_params.getall(name, [])) > 1:
            raise InvalidInput(
                f"The query parameter `{name}` is given more than once.", "Give it one value."
            )


@cache
def known_names(handler: HTTPRouteHandler) -> frozenset[str]:
    fields = handler.parsed_fn_signature.parameters.items()
    return frozenset(
        public_name(handler, name) for name, field in fields if _is_of_kind(field, ParamType.QUERY)
    )


@cache
def single_names(handler: HTTPRouteHandler, kind: ParamType) -> frozenset[str]:
    """The parameters of this kind that have one value, and not a list."""
    fields = handler.parsed_fn_signature.parameters.items()
    return frozenset(
        public_name(handler, name)
        for name, field in fields
        if _is_of_kind(field, kind) and not _is_list(field)
    )


def public_name(handler: HTTPRouteHandler, name: str) -> str:
    """The name of a parameter in the API, which may differ from that of the argument."""
    field = handler.parsed_fn_signature.parameters.get(name)
    definition = None if field is None else _definition(field)
    return name if definition is None else definition.name or name


def choices(handler: HTTPRouteHandler, name: str) -> list[str]:
    """The allowed values of a parameter of an enum type."""
    field = handler.parsed_fn_signature.parameters.get(name)
    return [] if field is None else [str(member.value) for kind in _enums(field) for member in kind]


def _enums(field: FieldDefinition) -> list[type[Enum]]:
    if isinstance(field.annotation, type) and issubclass(field.annotation, Enum):
        return [field.annotation]
    return [kind for inner in field.inner_types for kind in _enums(inner)]


def _is_of_kind(field: FieldDefinition, kind: ParamType) -> bool:
    definition = _definition(field)
    return definition is not None and definition.param_type is kind


def _is_list(field: FieldDefinition) -> bool:
    return field.is_non_string_collection or any(map(_is_list, field.inner_types))


def _definition(field: FieldDefinition) -> ParameterKwarg | None:
    definition = field.kwarg_definition
    return definition if isinstance(definition, ParameterKwarg) else None


def _hint(names: frozenset[str]) -> str:
    return f"Choose from: {', '.join(sorted(names))}." if names else "This operation takes none."
