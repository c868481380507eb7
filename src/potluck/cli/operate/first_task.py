"""The self-check: a small task through the whole flow, as any consumer would run it."""

import threading
from datetime import UTC, datetime

from msgspec import Struct

from potluck.cli.operate.child_program import Checked, Inbox, ServerMoved
from potluck.cli.tasks.task_text import duration_seconds, stage, why
from potluck.cli.terminal.units import show_seconds
from potluck.consumer import Potluck
from potluck.consumer.identity.profile import Profile
from potluck.model.device import Availability
from potluck.model.error import PotluckError, Unavailable
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
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
    """How it went, and what it wrote to stdout."""

    task: TaskView
    stdout: str

    @property
    def is_right(self) -> bool:
        return self.task.state is TaskState.SUCCEEDED and ANSWER in self.stdout

    def timing(self) -> str:
        whole = (self.task.finished_at or self.task.updated_at) - self.task.created_at
        ran = show_seconds(duration_seconds(self.task, datetime.now(UTC)) or 0.0)
        return f"{show_seconds(whole.total_seconds())} from submit to end, {ran} of it running"

    def explanation(self) -> str:
        return why(self.task) or f"it ended as {self.task.state} with {self.stdout!r}"


def begin_first_task(profile: Profile, node_id: str, inbox: Inbox) -> None:
    """Runs it beside the caller; the outcome, or the error, comes by the inbox."""
    threading.Thread(target=_check, args=(profile, node_id, inbox), daemon=True).start()


def _check(profile: Profile, node_id: str, inbox: Inbox) -> None:
    try:
        with Potluck.as_saved(profile) as potluck:
            _check_open(potluck.resources.node(node_id))
            inbox.put(Checked(_run(potluck, inbox)))
    except PotluckError as error:
        inbox.put(Checked(error))


def _check_open(node: NodeView) -> None:
    """What its owner has closed would let the task wait, for hours perhaps."""
    whys = [one.why for one in node.devices if one.availability is not Availability.AVAILABLE]
    if len(whys) == len(node.devices):
        said = " ".join(dict.fromkeys(whys))
        raise Unavailable(
            f"this machine takes no work now. {said}".rstrip(), "See: potluck provider explain"
        )


def _run(potluck: Potluck, inbox: Inbox) -> FirstTask:
    task = potluck.tasks.submit(TaskRequest(ScriptSpec("first-task.py", SCRIPT), name="first task"))
    written = b""
    for event in potluck.tasks.follow(task.id):
        if isinstance(event, FollowedState):
            task = event.task
            if not task.state.is_final:
                inbox.put(ServerMoved(stage(task)))
        elif isinstance(event, FollowedLog):
            written += b"".join(p.data for p in event.page.pieces if p.stream == "stdout")
    return FirstTask(task, written.decode("utf-8", "replace").strip())
