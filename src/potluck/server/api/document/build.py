"""Builds the document: every operation of the application, in the order of the areas."""

from typing import Any

from litestar import Litestar

from potluck.server.api.area import operation_of
from potluck.server.api.document import about, problems
from potluck.server.api.document.operation import Described, described
from potluck.server.api.document.schemas import Schema, Schemas
from potluck.server.api.operations import AREAS, OPERATIONS
from potluck.wire.consumer import FollowEvent
from potluck.wire.events import EventGap
from potluck.wire.problem import Problem

# Types that only streams carry.
_IN_STREAMS: list[Any] = [FollowEvent, EventGap]


def document(app: Litestar) -> dict[str, Any]:
    declared = operations(app)
    choices = [kind for operation in declared for kind in operation.choices]
    requests = _unique([operation.request for operation in declared] + choices)
    answers = _unique([operation.answer for operation in declared])
    schemas = Schemas(requests, [*answers, Problem, *_IN_STREAMS])
    paths: dict[str, dict[str, Schema]] = {}
    for operation in declared:
        paths.setdefault(operation.path, {})[operation.method] = described(operation, schemas)
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
        Described(
            operation,
            handlers[operation.name],
            paths[operation.route.path][operation.route.method.lower()],
        )
        for operation in OPERATIONS.values()
        if operation.area.is_documented
    ]


def _unique(kinds: list[Any]) -> list[Any]:
    return list(dict.fromkeys(kind for kind in kinds if kind is not None))
