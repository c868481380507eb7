"""New ids, from the clock and the system's randomness."""

import os
import time

from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId, ulid


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


def _mint(kind: str) -> str:
    milliseconds = time.time_ns() // 1_000_000
    return f"{kind}_{ulid(milliseconds, os.urandom(10))}"
