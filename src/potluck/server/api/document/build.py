"""Puts the document together: every operation of the application, in the order of the areas."""

from enum import Enum
from typing import Any

from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import ServerSentEvent
from litestar.typing import FieldDefinition
from msgspec import Struct

from potluck.server.api.area import Operation, operation_of
from potluck.server.api.document import about, problems
from potluck.server.api.document.operations import described
from potluck.server.api.document.schemas import Schema, Schemas
from potluck.server.api.operations import AREAS, OPERATIONS
from potluck.wire.consumer import FollowEvent
from potluck.wire.events import EventGap
from potluck.wire.problem import Problem

# What streams carry is in no answer as a whole.
_IN_STREAMS: list[Any] = [FollowEvent, EventGap]


class Described(Struct, frozen=True):
    """An operation as it is declared, and as the framework has it."""

    declared: Operation
    handler: HTTPRouteHandler
    said: dict[str, Any]  # the framework's own description: we keep its parameters

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def path(self) -> str:
        return self.declared.route.path

    @property
    def method(self) -> str:
        return self.declared.route.method.lower()

    @property
    def request(self) -> Any:
        """The type of its body, if that is a value."""
        field = self.handler.parsed_data_field
        return None if field is None else field.annotation

    @property
    def answer(self) -> Any:
        """The type of what it answers with, if that is a value."""
        field = self.handler.parsed_return_field
        if field.is_subclass_of(Response):
            inner = field.inner_types[0].annotation if field.inner_types else None
            return inner if isinstance(inner, type) and issubclass(inner, Struct) else None
        return None if field.annotation in (None, type(None), bytes, str) else field.annotation

    @property
    def choices(self) -> list[type[Enum]]:
        """The enums that its parameters are of, which may be in no body."""
        fields = list(self.handler.parsed_fn_signature.parameters.values())
        kinds = [kind for field in fields for kind in _kinds(field)]
        return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Enum)]

    @property
    def is_stream(self) -> bool:
        return self.handler.parsed_return_field.is_subclass_of(ServerSentEvent)


def document(app: Litestar) -> dict[str, Any]:
    found = operations(app)
    choices = [kind for each in found for kind in each.choices]
    requests = _unique([each.request for each in found] + choices)
    answers = _unique([each.answer for each in found])
    schemas = Schemas(requests, [*answers, Problem, *_IN_STREAMS])
    paths: dict[str, dict[str, Schema]] = {}
    for each in found:
        paths.setdefault(each.path, {})[each.method] = described(each, schemas)
    return {
        **about.opening(),
        "tags": [
            {"name": area.name, "description": area.description}
            for area in AREAS
            if area.is_documented
        ],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "responses": problems.responses(schemas.of_answer(Problem)),
            **about.components(),
        },
    }


def operations(app: Litestar) -> list[Described]:
    handlers = {
        operation.name: handler
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if (operation := operation_of(handler)) is not None
    }
    paths = app.openapi_schema.to_schema()["paths"]
    return [
        Described(each, handlers[each.name], paths[each.route.path][each.route.method.lower()])
        for each in OPERATIONS.values()
        if each.area.is_documented
    ]


def _kinds(field: FieldDefinition) -> list[Any]:
    return [field.annotation, *(kind for inner in field.inner_types for kind in _kinds(inner))]


def _unique(kinds: list[Any]) -> list[Any]:
    return list(dict.fromkeys(kind for kind in kinds if kind is not None))
