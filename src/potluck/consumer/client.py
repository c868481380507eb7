"""The consumer's client: everything that a person or a program asks of the server.

    with Potluck() as potluck:
        task = potluck.tasks.submit(TaskRequest(ScriptSpec("hello.py", "print('hello')")))
        print(potluck.tasks.wait(task.id).state)

It is synchronous and typed, speaks as the session of the profile unless it is given an API key,
repeats only what is safe to repeat, and raises nothing but the errors of `potluck.model.error`.
What it can do is in its parts, one file each: `tasks`, `results`, `resources`, `events`,
`webhooks`, `ledger`, `files`, `account`, `own_nodes` and `admin`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from potluck.consumer.account import OwnAccount
from potluck.consumer.admin import Admin
from potluck.consumer.events import Events
from potluck.consumer.files.files import Files
from potluck.consumer.http.api_call import ask
from potluck.consumer.http.connect import as_saved, connect
from potluck.consumer.http.transport import Patience, Transport
from potluck.consumer.identity.bearer import FixedToken
from potluck.consumer.identity.profile import Profile
from potluck.consumer.ledger import Ledger
from potluck.consumer.own_machines import OwnNodes
from potluck.consumer.resources import Resources
from potluck.consumer.results import TaskResults
from potluck.consumer.tasks import Tasks
from potluck.consumer.webhooks import Webhooks
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth
from potluck.wire.package import Package


class Potluck:
    """One account at one server.

    The URL may be left to POTLUCK_URL or the profile, the token (an API key) to POTLUCK_TOKEN; with
    neither, it speaks as the session of the profile.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, patience: Patience | None = None
    ):
        self._speak(connect(url, token, patience or Patience()))

    @classmethod
    def as_saved(cls, saved: Profile) -> Self:
        """As the session of this profile, whatever POTLUCK_TOKEN says."""
        client = cls.__new__(cls)
        client._speak(as_saved(saved))
        return client

    @classmethod
    def through(cls, door: Transport, token: str) -> Self:
        """As the one whom this token names, at the server behind the door."""
        client = cls.__new__(cls)
        client._speak(Transport(door.url, door.patience, door.ca_file, FixedToken(token)))
        return client

    def _speak(self, transport: Transport) -> None:
        self._transport = transport
        self._at_close: list[Callable[[], None]] = []
        self.tasks = Tasks(transport)
        self.results = TaskResults(transport)
        self.resources = Resources(transport)
        self.ledger = Ledger(transport)
        self.events = Events(transport)
        self.webhooks = Webhooks(transport)
        self.account = OwnAccount(transport)
        self.own_nodes = OwnNodes(transport)
        self.admin = Admin(transport)
        self.files = Files(transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Ctrl-C may have met the connection pool in the middle of something; it ends with us.
        if kind is not KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Ends its connections, after what was built on them."""
        while self._at_close:
            self._at_close.pop()()
        self._transport.close()

    def at_close(self, end: Callable[[], None]) -> None:
        """Called before the connections end, for what was built on them."""
        self._at_close.append(end)

    def begin_anew(self) -> None:
        """In a process that was forked: its connections are the parent's."""
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
        """The authority that the server is believed by, if it is not one of the system's."""
        return self._transport.ca_file

    def health(self) -> ServerHealth:
        """Whether the server is there at all, and which version it is."""
        return ask(self._transport, routes.HEALTHZ, ServerHealth)

    def package(self) -> Package:
        """What others install to join this pool: a wheel of the code that the server runs."""
        return ask(self._transport, routes.PACKAGE, Package)
