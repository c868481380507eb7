"""The names of wake-ups and cached values in `live`. Everything there can be rebuilt."""

import hashlib
from collections.abc import Iterable

from potluck.model.alert import AlertName
from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.task import Limits, Requirements
from potluck.wire import codec

SCHEDULE = "schedule"  # a task may have become placeable
OUTBOX = "outbox"  # there are new events
EVENTS = "events"  # events of any account were announced
WEBHOOKS = "webhooks"  # there may be deliveries to send
CALLERS = "callers"  # an account, a session or a key has changed
QUESTIONS = "questions"  # there is a question for the leader
ALERTS = "alerts"  # there may be messages about alerts to send
TROUBLE = "trouble"  # present while the scheduler fails


def outage(name: AlertName, latest_id: int) -> str:
    """The rate of messages about the database, after this alert about the last time."""
    return f"outage:{name}:{latest_id}"


def node(node_id: NodeId) -> str:
    """The node has an attempt to fetch or to stop."""
    return f"node:{node_id}"


def task(task_id: TaskId) -> str:
    """The task, its log or its waiting reason changed."""
    return f"task:{task_id}"


def account(account_id: AccountId) -> str:
    """The account has new events, already placed in order."""
    return f"account:{account_id}"


def results(task_id: TaskId) -> str:
    """The task has a new result, or has finished."""
    return f"results:{task_id}"


def shutdown(instance: str) -> str:
    """This instance is stopping: long polls and streams end now."""
    return f"shutdown:{instance}"


def telemetry(node_id: NodeId) -> str:
    """The node's latest load report."""
    return f"telemetry:{node_id}"


def samples(node_id: NodeId) -> str:
    """The node's reports about itself and its devices in the last hour."""
    return f"samples:{node_id}"


def device_news(device_id: DeviceId) -> str:
    """Rate of health notices sent to the device's owner."""
    return f"device-news:{device_id}"


def terminal_request(name: str) -> str:
    """A terminal that waits for approval."""
    return f"device-ask:{name}"


def terminal_poll(name: str) -> str:
    """Present while a terminal must not poll again."""
    return f"device-poll:{name}"


def answer(question_id: str) -> str:
    """The leader's answer to a question."""
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
    """Identifies a group of tasks that wait alike; derived from the task's row alone."""
    identity = (account_id, priority, requirements, limits, sorted(failed_on), array, kind)
    encoded = codec.encode_json(identity)
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def line(name: str) -> str:
    """The waiting reason of this group of tasks changed."""
    return f"line:{name}"


def waiting(name: str) -> str:
    """The waiting reason of this group of tasks, from the last round."""
    return f"waiting:{name}"
