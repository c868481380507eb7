"""The application: routes, access control, errors and the OpenAPI document."""

from typing import Any

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.di import Provide
from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig

from potluck import __version__
from potluck.server.api.document.served import Document
from potluck.server.api.http import formats, query
from potluck.server.api.http.access import Authentication, check_policies
from potluck.server.api.http.body import StrictRequest
from potluck.server.api.http.errors import answer_error
from potluck.server.api.http.request_context import bind_path_ids
from potluck.server.api.http.response import EncodedResponse
from potluck.server.api.operations import OPERATIONS
from potluck.server.services import Services


def make_app(services: Services) -> Litestar:
    async def provide_services() -> Services:
        return services

    app = Litestar(
        # The first handler of a path decides whether the framework adds its own for OPTIONS.
        route_handlers=[
            *_options_handlers(),
            *(operation.route_handler() for operation in OPERATIONS.values()),
        ],
        dependencies={"services": Provide(provide_services)},
        signature_types=[Services],
        state=State({"services": services}),
        request_class=StrictRequest,
        response_class=EncodedResponse,
        before_request=_check,
        request_max_body_size=services.settings.max_body_bytes,
        exception_handlers={Exception: answer_error},
        middleware=[DefineMiddleware(Authentication, exclude="^/schema")],
        openapi_config=_openapi(),
        logging_config=None,
    )
    check_policies(app)
    return app


def _options_handlers() -> list[HTTPRouteHandler]:
    """One for each path; those of the framework list only the first method of a path."""
    methods: dict[str, list[str]] = {}
    for operation in OPERATIONS.values():
        methods.setdefault(operation.route.template, ["OPTIONS"]).append(operation.route.method)
    return [
        _options_handler(path, ", ".join(sorted(methods_of_path)))
        for path, methods_of_path in methods.items()
    ]


def _options_handler(path: str, allowed: str) -> HTTPRouteHandler:
    async def options() -> Response[None]:
        return Response(None, status_code=204, headers={"Allow": allowed})

    handler = HTTPRouteHandler(
        path, http_method=HttpMethod.OPTIONS, status_code=204, include_in_schema=False
    )
    return handler(options)


async def _check(request: Request[Any, Any, Any]) -> None:
    """Checks that apply to every operation, before the handler runs."""
    bind_path_ids(request.path_params)
    query.check(request)
    formats.check(request)


def _openapi() -> OpenAPIConfig:
    """The framework lists operations and parameters; `document` adds the rest."""
    return OpenAPIConfig(
        title="Potluck",
        version=__version__,
        path="/schema",
        use_handler_docstrings=True,
        render_plugins=[Document()],
    )
