"""The consumer's client: every call that a person or a program makes to the server.

    with Potluck() as potluck:
        task = potluck.tasks.submit(TaskRequest(ScriptSpec("hello.py", "print('hello')")))
        print(potluck.tasks.wait(task.id).state)

It is synchronous and typed, uses the session of the profile unless it is given an API key, repeats
only calls that are safe to repeat, and raises only the errors of `potluck.model.error`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, overload

from potluck.consumer.http.connect import connect, connect_with_profile
from potluck.consumer.http.transport import Patience, Transport, call_api
from potluck.consumer.identity.bearer import FixedToken
from potluck.consumer.identity.profile import Profile
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth
from potluck.wire.package import Package

if TYPE_CHECKING:
    from potluck.consumer.account import OwnAccount
    from potluck.consumer.admin import Admin
    from potluck.consumer.events import Events
    from potluck.consumer.files.files import Files
    from potluck.consumer.ledger import Ledger
    from potluck.consumer.own_machines import OwnNodes
    from potluck.consumer.receipts import Receipts
    from potluck.consumer.resources import Resources
    from potluck.consumer.results import TaskResults
    from potluck.consumer.rewards import OwnRewards
    from potluck.consumer.tasks import Tasks
    from potluck.consumer.volumes import Volumes
    from potluck.consumer.webhooks import Webhooks

T = TypeVar("T")


class ClientArea(Generic[T]):
    """An area of the client, imported and made when it is first used.

    The instance then holds it under the same name, where Python looks before it asks here.
    """

    def __init__(self, module: str, kind: str):
        self._module = module
        self._kind = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...

    @overload
    def __get__(self, client: "Potluck", owner: type) -> T: ...

    def __get__(self, client: "Potluck | None", owner: type) -> Self | T:
        if client is None:
            return self
        made = getattr(import_module(self._module), self._kind)(client.transport)
        area: T = vars(client).setdefault(self._name, made)
        return area


class Potluck:
    """One account at one server.

    The URL defaults to POTLUCK_URL or the profile, the token (an API key) to POTLUCK_TOKEN; without
    a token the client uses the session of the profile.
    """

    tasks: "ClientArea[Tasks]" = ClientArea("potluck.consumer.tasks", "Tasks")
    results: "ClientArea[TaskResults]" = ClientArea("potluck.consumer.results", "TaskResults")
    resources: "ClientArea[Resources]" = ClientArea("potluck.consumer.resources", "Resources")
    rewards: "ClientArea[OwnRewards]" = ClientArea("potluck.consumer.rewards", "OwnRewards")
    ledger: "ClientArea[Ledger]" = ClientArea("potluck.consumer.ledger", "Ledger")
    events: "ClientArea[Events]" = ClientArea("potluck.consumer.events", "Events")
    webhooks: "ClientArea[Webhooks]" = ClientArea("potluck.consumer.webhooks", "Webhooks")
    account: "ClientArea[OwnAccount]" = ClientArea("potluck.consumer.account", "OwnAccount")
    own_nodes: "ClientArea[OwnNodes]" = ClientArea("potluck.consumer.own_machines", "OwnNodes")
    receipts: "ClientArea[Receipts]" = ClientArea("potluck.consumer.receipts", "Receipts")
    admin: "ClientArea[Admin]" = ClientArea("potluck.consumer.admin", "Admin")
    files: "ClientArea[Files]" = ClientArea("potluck.consumer.files.files", "Files")
    volumes: "ClientArea[Volumes]" = ClientArea("potluck.consumer.volumes", "Volumes")

    def __init__(
        self, url: str | None = None, token: str | None = None, patience: Patience | None = None
    ):
        self._use(connect(url, token, patience or Patience()))

    @classmethod
    def as_saved(cls, saved: Profile) -> Self:
        """With the session of this profile, even if POTLUCK_TOKEN is set."""
        client = cls.__new__(cls)
        client._use(connect_with_profile(saved))
        return client

    @classmethod
    def through(cls, anonymous: Transport, token: str) -> Self:
        """With this token, at the server of an anonymous transport."""
        client = cls.__new__(cls)
        client._use(
            Transport(anonymous.url, anonymous.patience, anonymous.ca_file, FixedToken(token))
        )
        return client

    def _use(self, transport: Transport) -> None:
        self._transport = transport
        self._at_close: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Ctrl-C may have left the connection pool in any state; it ends with the process.
        if kind is not KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Runs what `at_close` was given, then closes the connections."""
        while self._at_close:
            self._at_close.pop()()
        self._transport.close()

    def at_close(self, end: Callable[[], None]) -> None:
        """Calls `end` before the connections are closed."""
        self._at_close.append(end)

    def begin_anew(self) -> None:
        """Drops the parent's connections, in a process that was forked."""
        self._at_close.clear()
        self._transport.begin_anew()

    @property
    def transport(self) -> Transport:
        return self._transport

    @property
    def url(self) -> str:
        return self._transport.url

    @property
    def ca_file(self) -> Path | None:
        """The pinned certificate authority; None: those of the system."""
        return self._transport.ca_file

    def health(self) -> ServerHealth:
        """Whether the server answers, and its version."""
        return call_api(self._transport, routes.HEALTHZ, ServerHealth)

    def package(self) -> Package:
        """The wheel with which others join this pool: the code that the server runs."""
        return call_api(self._transport, routes.PACKAGE, Package)


AREAS: Final = tuple(
    name for name, member in vars(Potluck).items() if isinstance(member, ClientArea)
)
