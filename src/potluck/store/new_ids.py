"""New ids, from the clock and the system's randomness; a simulation brings its own of both."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId, ulid

# Milliseconds since 1970, and ten bytes.
Source: TypeAlias = Callable[[], tuple[int, bytes]]


def _machine() -> tuple[int, bytes]:
    return time.time_ns() // 1_000_000, os.urandom(10)


_source: ContextVar[Source] = ContextVar("source", default=_machine)


@contextmanager
def drawing_from(source: Source) -> Iterator[None]:
    """Within it, and in all tasks that are begun within it, ids come from this source."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def new_account_id() -> AccountId:
    return AccountId(_mint("account"))


def new_node_id() -> NodeId:
    return NodeId(_mint("node"))


def new_device_id() -> DeviceId:
    return DeviceId(_mint("device"))


def new_task_id() -> TaskId:
    return TaskId(_mint("task"))


def new_attempt_id() -> AttemptId:
    return AttemptId(_mint("attempt"))


def new_session_id() -> str:
    return _mint("session")


def new_key_id() -> str:
    return _mint("key")


def new_node_key_id() -> str:
    return _mint("nodekey")


def new_invite_id() -> str:
    return _mint("invite")


def new_upload_id() -> str:
    return _mint("upload")


def new_event_id() -> str:
    """Of what is sent and never written down."""
    return _mint("event")


def new_webhook_id() -> str:
    return _mint("webhook")


def new_delivery_id() -> str:
    return _mint("delivery")


def _mint(kind: str) -> str:
    return f"{kind}_{ulid(*_source.get()())}"
