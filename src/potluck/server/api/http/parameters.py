"""Parameters of several areas, and parsers for the ids in paths."""

from typing import Annotated, Any

from litestar import Request
from litestar.params import HeaderParameter

from potluck.model.account import Credential
from potluck.model.bounded_types import ASCII_PATTERN
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import NodeId, TaskId, is_id, split_call_id
from potluck.server.auth.caller import Caller
from potluck.server.flow.submit.upload import no_such_upload
from potluck.store.nodes.nodes import Owner, no_such_node
from potluck.wire.files import MOST_PARTS

CallerRequest = Request[Caller, Any, Any]  # of an operation that needs a credential
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key", min_length=1, max_length=200, pattern=ASCII_PATTERN, required=False
    ),
]


def task_id_of(text: str) -> TaskId:
    if not is_id(text, "task"):
        raise NotFound(f"{text[:64]!r} is not the id of a task.", "`potluck ps` lists your tasks.")
    return TaskId(text)


def call_id_of(text: str) -> tuple[TaskId, int | None]:
    """A task, and the item if the text is `task#item`."""
    task_id, item = split_call_id(text)
    return task_id_of(task_id), item


def wanted_task(text: str) -> TaskId:
    """For a filter: a task of another account simply matches nothing."""
    if not is_id(text, "task"):
        raise InvalidInput(
            f"{text[:64]!r} is not the id of a task.", "`potluck ps` lists your tasks."
        )
    return TaskId(text)


def node_id_of(text: str) -> NodeId:
    if not is_id(text, "node"):
        raise no_such_node(text[:64])
    return NodeId(text)


def owner_of(caller: Caller) -> Owner:
    """A node key acts only for the node that it registered."""
    assert caller.credential is Credential.NODE, "the policy admits node keys only"
    return Owner(caller.id, caller.credential_id)


def upload_id_of(text: str) -> str:
    if not is_id(text, "upload"):
        raise no_such_upload(text)
    return text


def part_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 7 and int(text) < MOST_PARTS):
        raise InvalidInput(f"{text[:64]!r} is not the number of a part.", "Count them from 0.")
    return int(text)
