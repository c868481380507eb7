"""The consumer's client: everything that a person or a program asks of the server.

    with Potluck() as potluck:
        task = potluck.submit(TaskRequest(ScriptSpec("hello.py", "print('hello')")))
        print(potluck.wait(task.id).state)

It is synchronous and typed, speaks as the session of the profile unless it is given an API key,
repeats only what is safe to repeat, and raises nothing but the errors of `potluck.model.error`.
What concerns accounts is in `account.py`, one's own machines in `own_nodes.py`, files in `files.py`
and what admins do in `admin.py`.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from uuid import uuid4

from potluck.consumer.account import OwnAccount
from potluck.consumer.admin import Admin
from potluck.consumer.ask import ask, path_of
from potluck.consumer.bearer import FixedToken
from potluck.consumer.connect import as_saved, connect
from potluck.consumer.files import Files
from potluck.consumer.follow import Follow
from potluck.consumer.own_nodes import OwnNodes
from potluck.consumer.patience import Patience
from potluck.consumer.profile import Profile
from potluck.consumer.sign_in import challenge
from potluck.consumer.transport import Transport
from potluck.model.device import DeviceKind
from potluck.model.error import PotluckError
from potluck.model.ids import TaskId
from potluck.model.task import TaskRequest, TaskState
from potluck.wire import routes
from potluck.wire.consumer import (
    AttemptPage,
    DevicePage,
    Explanation,
    FailedItemPage,
    FollowedState,
    Health,
    LogPage,
    NodeList,
    NodeView,
    TaskPage,
    TaskView,
)
from potluck.wire.identity import Challenge, Me
from potluck.wire.results import AskResults, Results, TaskResult, Wanted


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

    def submit(self, request: TaskRequest) -> TaskView:
        """Puts a task into the queue, once, however often the network makes us ask."""
        return ask(
            self._transport, routes.SUBMIT_TASK, TaskView, body=request, headers=_idempotent()
        )

    def task(self, task_id: str) -> TaskView:
        return ask(self._transport, routes.GET_TASK, TaskView, {"task_id": task_id})

    def tasks(
        self,
        limit: int | None = None,
        cursor: str | None = None,
        states: Sequence[TaskState] = (),
        *,
        name: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> TaskPage:
        """My tasks, newest first; `next_cursor` of the answer asks for the older ones.

        Only those in one of the states, of that name and kind, submitted since and before then.
        """
        query = {
            "limit": limit,
            "cursor": cursor,
            "state": tuple(states) or None,
            "name": name,
            "kind": kind,
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
        }
        return ask(self._transport, routes.LIST_TASKS, TaskPage, query=query)

    def explain(self, task_id: str) -> Explanation:
        """Why a task waits, what would help, and when it may start."""
        return ask(self._transport, routes.EXPLAIN_TASK, Explanation, {"task_id": task_id})

    def cancel(self, task_id: str) -> TaskView:
        """Calls a task off; cancelling a cancelled one is fine, so this may be repeated too."""
        named = {"task_id": task_id}
        return ask(self._transport, routes.CANCEL_TASK, TaskView, named, headers=_idempotent())

    def logs(self, task_id: str, attempt: int | None = None, offset: int | None = None) -> LogPage:
        """A part of the log of the attempt with this number; of the newest without one."""
        query = {"attempt": attempt, "offset": offset}
        return ask(self._transport, routes.TASK_LOGS, LogPage, {"task_id": task_id}, query=query)

    def follow(self, task_id: str, on_gap: Callable[[PotluckError], None] | None = None) -> Follow:
        """States and log as they happen, until the task is final and its log is complete."""
        return Follow(self._transport, path_of(routes.FOLLOW_TASK, {"task_id": task_id}), on_gap)

    def wait(self, task_id: str) -> TaskView:
        """The task in its final state."""
        task = self.task(task_id)
        if task.state.is_final:
            return task
        for event in self.follow(task_id):
            if isinstance(event, FollowedState):
                task = event.task
        return task

    def results(self, task_id: str) -> TaskResult:
        """What the function of a task has given so far, as the node told it; see `has_more`."""
        found = self._results(task_id)
        if found is not None:
            return found
        state = self.task(task_id).state
        # It may have ended just now, and then there is something to say.
        later = self._results(task_id) if state.is_final else None
        return later or TaskResult(TaskId(task_id), state, 0)

    def _results(self, task_id: str) -> TaskResult | None:
        asked = AskResults((Wanted(TaskId(task_id)),))
        found = ask(self._transport, routes.ASK_RESULTS, Results, body=asked, repeatable=True)
        return next(iter(found.results), None)

    def attempts(
        self,
        task_id: str,
        cursor: int | None = None,
        *,
        item: int | None = None,
        limit: int | None = None,
    ) -> AttemptPage:
        """Attempts at a task, newest first, before the number `cursor`; of an array, at an item."""
        query = {"cursor": cursor, "item": item, "limit": limit}
        named = {"task_id": task_id}
        return ask(self._transport, routes.LIST_ATTEMPTS, AttemptPage, named, query=query)

    def failed_items(
        self, task_id: str, cursor: int | None = None, limit: int | None = None
    ) -> FailedItemPage:
        """Items of an array that failed, in order, behind the item `cursor`."""
        query = {"cursor": cursor, "limit": limit}
        named = {"task_id": task_id}
        return ask(self._transport, routes.FAILED_ITEMS, FailedItemPage, named, query=query)

    def nodes(self) -> list[NodeView]:
        """The machines in the pool."""
        return ask(self._transport, routes.LIST_NODES, NodeList).nodes

    def node(self, node_id: str) -> NodeView:
        return ask(self._transport, routes.GET_NODE, NodeView, {"node_id": node_id})

    def devices(
        self,
        cursor: str | None = None,
        *,
        kind: DeviceKind | None = None,
        model: str | None = None,
        free_milli: int | None = None,
        limit: int | None = None,
    ) -> DevicePage:
        """The devices of the pool and what they serve; `next_cursor` asks for those behind."""
        query = {
            "cursor": cursor,
            "kind": kind,
            "model": model,
            "free_milli": free_milli,
            "limit": limit,
        }
        return ask(self._transport, routes.LIST_DEVICES, DevicePage, query=query)

    def me(self) -> Me:
        """The account behind the credential, and what that covers."""
        return ask(self._transport, routes.ME, Me)

    def challenge(self) -> Challenge:
        """A nonce for what a wallet signs next."""
        return challenge(self._transport)

    def health(self) -> Health:
        """Whether the server is there at all, and which version it is."""
        return ask(self._transport, routes.HEALTHZ, Health)


def _idempotent() -> dict[str, str]:
    return {"Idempotency-Key": uuid4().hex}
