"""The names of wake-ups and cached values in `live`. Nothing here that can not be rebuilt."""

import hashlib
from collections.abc import Iterable

from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.task import Limits, Requirements
from potluck.wire import codec

SCHEDULE = "schedule"  # something may have become placeable
OUTBOX = "outbox"  # there is something to tell
WEBHOOKS = "webhooks"  # there may be something to send
QUESTIONS = "questions"  # somebody asks the leader something
TROUBLE = "trouble"  # there while the scheduler fails


def node(node_id: NodeId) -> str:
    """The node has something to fetch or to stop."""
    return f"node:{node_id}"


def task(task_id: TaskId) -> str:
    """The task, its log or its waiting reason changed."""
    return f"task:{task_id}"


def account(account_id: AccountId) -> str:
    """There are new events of this account, in their places."""
    return f"account:{account_id}"


def results(task_id: TaskId) -> str:
    """The task has given something, or is over."""
    return f"results:{task_id}"


def shutdown(instance: str) -> str:
    """This instance stops: long polls and streams end now."""
    return f"shutdown:{instance}"


def telemetry(node_id: NodeId) -> str:
    """What the node last said about its load."""
    return f"telemetry:{node_id}"


def samples(node_id: NodeId) -> str:
    """What the node said about itself and its devices in the last hour."""
    return f"samples:{node_id}"


def device_news(device_id: DeviceId) -> str:
    """How often its owner was told lately that a device is sick, or well."""
    return f"device-news:{device_id}"


def terminal_ask(name: str) -> str:
    """A terminal that waits for somebody to approve it."""
    return f"device-ask:{name}"


def terminal_poll(name: str) -> str:
    """There while a terminal that polls should not poll again."""
    return f"device-poll:{name}"


def answer(question_id: str) -> str:
    """What the leader said to a question."""
    return f"answer:{question_id}"


def line_name(
    account_id: AccountId,
    priority: int,
    requirements: Requirements,
    limits: Limits,
    failed_on: Iterable[NodeId],
    array: TaskId | None,
    kind: str,
) -> str:
    """Of tasks that wait alike; the same on every instance, from the task's own row."""
    about = (account_id, priority, requirements, limits, sorted(failed_on), array, kind)
    told = codec.encode_json(about)
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def line(name: str) -> str:
    """Tasks that ask for the same: why some of them wait changed."""
    return f"line:{name}"


def waiting(name: str) -> str:
    """Why the tasks of this line wait, as the last round saw it."""
    return f"waiting:{name}"
