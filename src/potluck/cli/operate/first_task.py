"""The self-check: a small task that runs like any consumer's."""

import threading
from datetime import UTC, datetime

from msgspec import Struct

from potluck.cli.operate.child_program import CheckDone, CheckProgress, Inbox
from potluck.cli.tasks.task_text import describe_reason, describe_stage, duration_seconds
from potluck.consumer import Potluck
from potluck.consumer.identity.profile import Profile
from potluck.model.device import Availability
from potluck.model.error import PotluckError, Unavailable
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.model.units import show_seconds
from potluck.wire.consumer import FollowedLog, FollowedState, NodeView, TaskView

SCRIPT = """\
import os, platform
total = sum(n * n for n in range(1_000_000))
print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
      f" with {os.cpu_count()} cores")
print(f"the first million squares add up to {total:,}")
"""
ANSWER = "333,332,833,333,500,000"


class FirstTask(Struct, frozen=True):
    """The finished task, and its stdout."""

    task: TaskView
    stdout: str

    @property
    def is_right(self) -> bool:
        return self.task.state is TaskState.SUCCEEDED and ANSWER in self.stdout

    def timing(self) -> str:
        total = (self.task.finished_at or self.task.updated_at) - self.task.created_at
        ran = show_seconds(duration_seconds(self.task, datetime.now(UTC)) or 0.0)
        return f"{show_seconds(total.total_seconds())} from submit to end, {ran} of it running"

    def explanation(self) -> str:
        return describe_reason(self.task) or f"it ended as {self.task.state} with {self.stdout!r}"


def start_first_task(profile: Profile, node_id: str, inbox: Inbox) -> None:
    """Runs it in a thread; the outcome or the error arrives in the inbox."""
    threading.Thread(target=_check, args=(profile, node_id, inbox), daemon=True).start()


def _check(profile: Profile, node_id: str, inbox: Inbox) -> None:
    try:
        with Potluck.as_saved(profile) as potluck:
            _check_takes_work(potluck.resources.node(node_id))
            inbox.put(CheckDone(_run(potluck, inbox)))
    except PotluckError as error:
        inbox.put(CheckDone(error))


def _check_takes_work(node: NodeView) -> None:
    """Fails early: on a machine whose devices are all closed, the task could wait for hours."""
    reasons_closed = [
        device.why for device in node.devices if device.availability is not Availability.AVAILABLE
    ]
    if len(reasons_closed) == len(node.devices):
        reasons = " ".join(dict.fromkeys(reasons_closed))
        raise Unavailable(
            f"this machine takes no work now. {reasons}".rstrip(), "See: potluck provider explain"
        )


def _run(potluck: Potluck, inbox: Inbox) -> FirstTask:
    task = potluck.tasks.submit(TaskRequest(ScriptSpec("first-task.py", SCRIPT), name="first task"))
    stdout = b""
    for event in potluck.tasks.follow(task.id):
        if isinstance(event, FollowedState):
            task = event.task
            if not task.state.is_final:
                inbox.put(CheckProgress(describe_stage(task)))
        elif isinstance(event, FollowedLog):
            stdout += b"".join(p.data for p in event.page.pieces if p.stream == "stdout")
    return FirstTask(task, stdout.decode("utf-8", "replace").strip())
