"""New ids, from a clock and the system's randomness; a simulation supplies its own."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TypeAlias

from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId, ulid

# Milliseconds since 1970, and ten random bytes.
Source: TypeAlias = Callable[[], tuple[int, bytes]]


class _OrderedSource:
    """Ids made one after another sort so, also within a millisecond: a list keeps its order.

    The first ten of the random bits are the microsecond within the millisecond.
    """

    def __init__(self, microseconds: Callable[[], int]) -> None:
        self._microseconds = microseconds
        self._latest = 0

    def __call__(self) -> tuple[int, bytes]:
        moment = self._microseconds()
        if moment <= self._latest < moment + 1000:  # a clock that was set back is followed
            moment = self._latest + 1
        self._latest = moment
        milliseconds, rest = divmod(moment, 1000)
        random = int.from_bytes(os.urandom(9)) >> 2
        return milliseconds, (rest << 70 | random).to_bytes(10)


def clock_source(now: Callable[[], datetime]) -> Source:
    """By this clock: an id tells when its object was made, to all instances."""
    return _OrderedSource(lambda: round(now().timestamp() * 1_000_000))


_machine: Source = _OrderedSource(lambda: time.time_ns() // 1000)
_source: ContextVar[Source] = ContextVar("source", default=_machine)


@contextmanager
def use_id_source(source: Source) -> Iterator[None]:
    """Within this context, and in tasks started there, ids come from this source."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def new_account_id() -> AccountId:
    return AccountId(_new_id("account"))


def new_node_id() -> NodeId:
    return NodeId(_new_id("node"))


def new_device_id() -> DeviceId:
    return DeviceId(_new_id("device"))


def new_task_id() -> TaskId:
    return TaskId(_new_id("task"))


def new_attempt_id() -> AttemptId:
    return AttemptId(_new_id("attempt"))


def new_session_id() -> str:
    return _new_id("session")


def new_key_id() -> str:
    return _new_id("key")


def new_node_key_id() -> str:
    return _new_id("nodekey")


def new_invite_id() -> str:
    return _new_id("invite")


def new_upload_id() -> str:
    return _new_id("upload")


def new_event_id() -> str:
    """For events that are sent but not stored."""
    return _new_id("event")


def new_webhook_id() -> str:
    return _new_id("webhook")


def new_delivery_id() -> str:
    return _new_id("delivery")


def new_backup_id() -> str:
    return _new_id("backup")


def new_silence_id() -> str:
    return _new_id("silence")


def new_volume_id() -> str:
    return _new_id("volume")


def _new_id(kind: str) -> str:
    return f"{kind}_{ulid(*_source.get()())}"
