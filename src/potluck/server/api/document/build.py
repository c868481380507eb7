"""Puts the document together: every operation of the application, in the order of the areas."""

from enum import Enum
from typing import Any

from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.response import ServerSentEvent
from litestar.typing import FieldDefinition
from msgspec import Struct

from potluck.server.api.document import about, problems
from potluck.server.api.document.operations import described
from potluck.server.api.document.schemas import Schema, Schemas
from potluck.server.api.examples import AREAS
from potluck.wire.consumer import FollowEvent
from potluck.wire.events import EventGap
from potluck.wire.problem import Problem

# What streams carry is in no answer as a whole.
_IN_STREAMS: list[Any] = [FollowEvent, EventGap]


class Described(Struct, frozen=True):
    """An operation as the framework has it, before anything is said about it."""

    name: str
    path: str
    method: str
    handler: HTTPRouteHandler
    said: dict[str, Any]  # the framework's own description: we keep its parameters

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
    found = sorted(operations(app), key=lambda each: _order(each.name))
    choices = [kind for each in found for kind in each.choices]
    requests = _unique([each.request for each in found] + choices)
    answers = _unique([each.answer for each in found])
    schemas = Schemas(requests, [*answers, Problem, *_IN_STREAMS])
    paths: dict[str, dict[str, Schema]] = {}
    for each in found:
        paths.setdefault(each.path, {})[each.method] = described(each, schemas)
    return {
        **about.opening(),
        "tags": [{"name": area.name, "description": area.description} for area in AREAS],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "responses": problems.responses(schemas.of_answer(Problem)),
            **about.components(),
        },
    }


def operations(app: Litestar) -> list[Described]:
    handlers = {
        handler.operation_id: handler
        for route in app.routes
        for handler in getattr(route, "route_handlers", ())
        if isinstance(handler, HTTPRouteHandler)
    }
    paths = app.openapi_schema.to_schema()["paths"]
    return [
        Described(said["operationId"], path, method, handlers[said["operationId"]], said)
        for path, methods in paths.items()
        for method, said in methods.items()
    ]


def _kinds(field: FieldDefinition) -> list[Any]:
    return [field.annotation, *(kind for inner in field.inner_types for kind in _kinds(inner))]


def _order(name: str) -> tuple[int, int]:
    """By area, then as the area lists it; what no area knows comes last."""
    for at, area in enumerate(AREAS):
        if name in area.operations:
            return at, list(area.operations).index(name)
    return len(AREAS), 0


def _unique(kinds: list[Any]) -> list[Any]:
    return list(dict.fromkeys(kind for kind in kinds if kind is not None))
