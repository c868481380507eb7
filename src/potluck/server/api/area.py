"""Areas of the API and their operations. An operation is declared once, at its handler.

The declaration says who may call it: everyone (OPEN), or a credential with one of its scopes.
`model/account.py` has the role that a scope requires. Objects of other accounts are not found,
whatever the scope.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from litestar.enums import HttpMethod
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import Operation as OpenAPIOperation
from msgspec import Struct

from potluck.model.account import Scope
from potluck.model.error import PotluckError
from potluck.server.api.http.body import OctetsOperation
from potluck.wire.routes import Route

Handler = TypeVar("Handler", bound=Callable[..., Any])
OPEN: Final = ()
# What work needs. Everything else changes rights, machines' terms, or other people's things.
_ORDINARY: Final = frozenset(
    (Scope.TASKS_READ, Scope.TASKS_WRITE, Scope.POOL_READ, Scope.ACCOUNT_READ, Scope.NODE)
)


class Operation(Struct, frozen=True):
    """The declaration of an operation; policy, document and examples derive from it."""

    area: "Area"
    route: Route
    scopes: tuple[Scope, ...]  # any one of them is enough
    title: str  # a few words, as in a list of operations
    handler: Callable[..., Any]  # its name is the operation id, its docstring the description
    request: Any  # an example of the type that the handler takes, or bytes
    response: Any  # likewise; text for a stream; None without a body
    errors: tuple[
        type[PotluckError], ...
    ]  # in addition to those that every operation of its shape has
    is_timed: bool  # False if it waits, or transfers bytes: its time says nothing about the server
    options: dict[str, Any]  # for the framework
    # Whether it needs no credential on a server that only this machine can reach.
    is_open_locally: bool = False
    # Whether it changes no account, session or key, though everyone may call it.
    keeps_callers: bool = False

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def is_privileged(self) -> bool:
        """Whether its caller is looked up in the database for each call."""
        return not self.scopes or not _ORDINARY.issuperset(self.scopes)

    @property
    def changes_callers(self) -> bool:
        """Whether it may change an account, a session or a key."""
        is_changing = self.route.method != "GET" and not self.keeps_callers
        return is_changing and self.is_privileged

    def route_handler(self) -> HTTPRouteHandler:
        """Makes a new handler for each application, as the application modifies it."""
        takes_octets = isinstance(self.request, bytes)
        handler = HTTPRouteHandler(
            self.route.template,
            http_method=HttpMethod(self.route.method),
            operation_id=self.name,
            operation_class=OctetsOperation if takes_octets else OpenAPIOperation,
            include_in_schema=self.area.is_documented,
            opt={_OPERATION: self},
            **self.options,
        )
        return handler(self.handler)


class Area:
    """A tag of the document. Operations keep the order of their declarations."""

    def __init__(self, name: str, description: str, is_documented: bool = True) -> None:
        self.name, self.description, self.is_documented = name, description, is_documented
        self.operations: list[Operation] = []

    def operation(
        self,
        route: Route,
        scopes: Scope | tuple[Scope, ...],
        title: str,
        *,
        request: Any = None,
        response: Any = None,
        errors: tuple[type[PotluckError], ...] = (),
        is_timed: bool = True,
        is_open_locally: bool = False,
        keeps_callers: bool = False,
        **options: Any,
    ) -> Callable[[Handler], Handler]:
        """Declares the decorated function as the handler of an operation."""
        any_of = scopes if isinstance(scopes, tuple) else (scopes,)

        def declare(handler: Handler) -> Handler:
            declared = Operation(
                *(self, route, any_of, title, handler, request, response, errors),
                *(is_timed, options, is_open_locally, keeps_callers),
            )
            self.operations.append(declared)
            return handler

        return declare


_OPERATION: Final = "operation"


def operation_of(route_handler: Any) -> Operation | None:
    """The declaration of a handler of the framework, if it has one."""
    declared = getattr(route_handler, "opt", {}).get(_OPERATION)
    return declared if isinstance(declared, Operation) else None
