"""The consumer's client: everything that a person or a program asks of the server.

    with Potluck() as potluck:
        task = potluck.submit(TaskRequest(ScriptSpec("hello.py", "print('hello')")))
        print(potluck.wait(task.id).state)

It is synchronous and typed, takes address and token from the profile unless told otherwise, repeats
only what is safe to repeat, and raises nothing but the errors of `potluck.model.error`.
"""

from collections.abc import Callable, Mapping
from typing import Self, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

from potluck.consumer.follow import Follow
from potluck.consumer.patience import Patience
from potluck.consumer.profile import Profile, load_profile
from potluck.consumer.transport import Transport
from potluck.model.error import PotluckError
from potluck.model.task import TaskRequest, TaskState
from potluck.wire import routes
from potluck.wire.answer import decoded
from potluck.wire.codec import encode_json
from potluck.wire.consumer import (
    AccountAdded,
    AddAccount,
    FollowedState,
    GrantCredit,
    Health,
    LogPage,
    Me,
    NodeList,
    NodeView,
    TaskPage,
    TaskView,
)
from potluck.wire.routes import Route

T = TypeVar("T")


class Potluck:
    """One account at one server."""

    def __init__(self, profile: Profile | None = None, patience: Patience | None = None):
        self._transport = Transport(profile or load_profile(), patience or Patience())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Ctrl-C may have met the connection pool in the middle of something; it ends with us.
        if kind is not KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        self._transport.close()

    @property
    def url(self) -> str:
        return self._transport.url

    def submit(self, request: TaskRequest) -> TaskView:
        """Puts a task into the queue, once, however often the network makes us ask."""
        key = {"Idempotency-Key": uuid4().hex}
        body = encode_json(request)
        return self._ask(routes.SUBMIT_TASK, TaskView, body=body, headers=key)

    def task(self, task_id: str) -> TaskView:
        return self._ask(routes.GET_TASK, TaskView, names={"task_id": task_id})

    def tasks(
        self, limit: int | None = None, cursor: str | None = None, state: TaskState | None = None
    ) -> TaskPage:
        """My tasks, newest first; `next_cursor` of the answer asks for the older ones."""
        query = {"limit": limit, "cursor": cursor, "state": state}
        return self._ask(routes.LIST_TASKS, TaskPage, query=query)

    def cancel(self, task_id: str) -> TaskView:
        """Calls a task off; cancelling a cancelled one is fine, so this may be repeated too."""
        key = {"Idempotency-Key": uuid4().hex}
        return self._ask(routes.CANCEL_TASK, TaskView, names={"task_id": task_id}, headers=key)

    def logs(self, task_id: str, attempt: int | None = None, offset: int | None = None) -> LogPage:
        """A part of the log of the attempt with this number; of the newest without one."""
        query = {"attempt": attempt, "offset": offset}
        return self._ask(routes.TASK_LOGS, LogPage, names={"task_id": task_id}, query=query)

    def follow(self, task_id: str, on_gap: Callable[[PotluckError], None] | None = None) -> Follow:
        """States and log as they happen, until the task is final and its log is complete."""
        return Follow(self._transport, routes.FOLLOW_TASK.url(task_id=_safe(task_id)), on_gap)

    def wait(self, task_id: str) -> TaskView:
        """The task in its final state."""
        task = self.task(task_id)
        if task.state.is_final:
            return task
        for event in self.follow(task_id):
            if isinstance(event, FollowedState):
                task = event.task
        return task

    def nodes(self) -> list[NodeView]:
        """The machines in the pool."""
        return self._ask(routes.LIST_NODES, NodeList).nodes

    def me(self) -> Me:
        """The account behind the token."""
        return self._ask(routes.ME, Me)

    def health(self) -> Health:
        """Whether the server is there at all, and which version it is."""
        return self._ask(routes.HEALTHZ, Health)

    def add_account(self, name: str) -> AccountAdded:
        """For operators. Not repeated when the answer is lost: each call makes an account."""
        return self._ask(routes.ADD_ACCOUNT, AccountAdded, body=encode_json(AddAccount(name)))

    def grant(self, account_id: str, amount_micro: int) -> None:
        """For operators: gives credit. Not repeated when the answer is lost."""
        path = routes.GRANT_CREDIT.url(account_id=_safe(account_id))
        self._transport.call("POST", path, encode_json(GrantCredit(amount_micro)))

    def _ask(
        self,
        route: Route,
        kind: type[T],
        *,
        names: dict[str, str] | None = None,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> T:
        path = route.url(**{name: _safe(value) for name, value in (names or {}).items()})
        known = {name: value for name, value in (query or {}).items() if value is not None}
        if known:
            path = f"{path}?{urlencode(known)}"
        return decoded(self._transport.call(route.method, path, body, headers), kind, self.url)


def _safe(name: str) -> str:
    """A path segment stays one segment, whatever somebody typed."""
    return quote(name, safe="") or "-"
