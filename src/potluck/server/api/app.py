"""The application: routes, access, errors and the OpenAPI document in one place."""

from typing import Any

from litestar import Litestar, Request
from litestar.datastructures import State
from litestar.di import Provide
from litestar.middleware import DefineMiddleware
from litestar.openapi import OpenAPIConfig

from potluck import __version__
from potluck.server.api import formats, query
from potluck.server.api.access import Authentication, check_policies
from potluck.server.api.accounts import AccountController
from potluck.server.api.attempts import AttemptController
from potluck.server.api.audit import AuditController
from potluck.server.api.auth import AuthController
from potluck.server.api.authority import AuthorityController
from potluck.server.api.blobs import BlobController
from potluck.server.api.body import StrictRequest
from potluck.server.api.devices import DeviceController
from potluck.server.api.document.served import Document
from potluck.server.api.earnings import EarningsController
from potluck.server.api.encryption import EncryptionController
from potluck.server.api.errors import answer_error
from potluck.server.api.events import EventController
from potluck.server.api.explain import ExplainController
from potluck.server.api.health import HealthController
from potluck.server.api.invites import InviteController
from potluck.server.api.items import ItemController
from potluck.server.api.ledger import LedgerController
from potluck.server.api.me import MeController
from potluck.server.api.node_files import NodeFileController
from potluck.server.api.node_keys import NodeKeyController
from potluck.server.api.node_login import NodeLoginController
from potluck.server.api.nodes import NodeController
from potluck.server.api.package import PackageController
from potluck.server.api.pages import PageController
from potluck.server.api.pool import PoolController
from potluck.server.api.response import Answer
from potluck.server.api.results import ResultController
from potluck.server.api.tasks import TaskController
from potluck.server.api.terminals import TerminalController
from potluck.server.api.uploads import UploadController
from potluck.server.api.webhooks import WebhookController
from potluck.server.services import Parts

_CONTROLLERS = [
    HealthController,
    AuthorityController,
    PackageController,
    AuthController,
    TerminalController,
    PageController,
    MeController,
    EarningsController,
    LedgerController,
    NodeKeyController,
    NodeLoginController,
    TaskController,
    AttemptController,
    ItemController,
    ResultController,
    EventController,
    WebhookController,
    BlobController,
    UploadController,
    ExplainController,
    NodeController,
    NodeFileController,
    DeviceController,
    PoolController,
    AccountController,
    InviteController,
    AuditController,
    EncryptionController,
]


def make_app(parts: Parts) -> Litestar:
    async def provide_parts() -> Parts:
        return parts

    app = Litestar(
        route_handlers=_CONTROLLERS,
        dependencies={"parts": Provide(provide_parts)},
        signature_types=[Parts],
        state=State({"parts": parts}),
        request_class=StrictRequest,
        response_class=Answer,
        before_request=_check,
        request_max_body_size=parts.settings.max_body_bytes,
        exception_handlers={Exception: answer_error},
        middleware=[DefineMiddleware(Authentication, exclude="^/schema")],
        openapi_config=_openapi(),
        logging_config=None,
    )
    check_policies(app)
    return app


async def _check(request: Request[Any, Any, Any]) -> None:
    """What holds for every operation, before anything is done."""
    query.check(request)
    formats.check(request)


def _openapi() -> OpenAPIConfig:
    """The framework finds operations and parameters; `document` says the rest."""
    return OpenAPIConfig(
        title="Potluck",
        version=__version__,
        path="/schema",
        use_handler_docstrings=True,
        render_plugins=[Document()],
    )
