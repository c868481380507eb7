"""Texts about a task: its stage, reason, duration and place."""

from datetime import datetime

from potluck.cli.tasks.items import describe_counts, describe_progress, explain_end, percent_done
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Tone, printable
from potluck.model.task import EndReason, TaskState
from potluck.model.units import show_amount, show_count, show_seconds
from potluck.wire.consumer import AttemptView, TaskView

TONES = {
    TaskState.QUEUED: Tone.WAITING,
    TaskState.ASSIGNED: Tone.BUSY,
    TaskState.RUNNING: Tone.BUSY,
    TaskState.SUCCEEDED: Tone.GOOD,
    TaskState.FAILED: Tone.BAD,
    TaskState.CANCELLED: Tone.FAINT,
    TaskState.EXPIRED: Tone.BAD,
}


def describe_reason(task: TaskView) -> str:
    """Why it waits, or why it ended as it did; empty if there is nothing to explain."""
    if task.silence is not None:
        since, until = (
            f"{moment.astimezone():%H:%M:%S}" for moment in (task.silence.since, task.silence.until)
        )
        return (
            f"the node has been silent since {since};"
            f" unless it answers, the task moves to another node at {until}"
        )
    if not task.state.is_final:
        return printable(task.waiting.sentence) if task.waiting is not None else ""
    if task.state is TaskState.SUCCEEDED and task.items is not None:
        kind, items = "call" if task.is_stream else "item", task.items
        count, end = (items.failed, "failed") if items.failed else (items.cancelled, "cancelled")
        return f"{show_count(count, kind)} {end}" if count else ""
    if task.reason in (None, EndReason.COMPLETED, EndReason.CANCELLED):
        return ""  # the state says it all
    return explain_end(task)


def duration_seconds(task: TaskView, now: datetime) -> float | None:
    """How long the consumer's code ran, or has been running; None while it waits."""
    is_waiting = task.items is None and task.state in (TaskState.QUEUED, TaskState.ASSIGNED)
    if task.started_at is None or is_waiting:
        return None
    attempt = last_attempt(task) if task.items is None else None
    run_seconds = ran_seconds(attempt) if attempt and task.finished_at else None
    if run_seconds is not None:
        return run_seconds
    began = (attempt and attempt.started_at) or task.started_at  # not of an earlier attempt
    return ((task.finished_at or now) - began).total_seconds()


def waited_seconds(task: TaskView, now: datetime) -> float:
    """From its submission to the first start of its code, or to its end without one."""
    until = task.started_at or task.finished_at or now
    return (until - task.created_at).total_seconds()


def describe_cost(task: TaskView) -> str:
    """What was charged, and how much of it the account paid to itself."""
    own = sum(attempt.charge_micro for attempt in task.attempts if attempt.is_on_own_node)
    cost = show_amount(task.charge_micro)
    if not own:
        return cost
    if own < task.charge_micro:
        return f"{cost}, of which you paid {show_amount(own)} to yourself (your own device)"
    return f"{cost}, paid to yourself: your own device has a price, and your balance is the same"


def ran_seconds(attempt: AttemptView) -> float | None:
    """As the node measured it: its report may reach the server much later."""
    if attempt.started_at is None or attempt.finished_at is None:
        return None
    between = (attempt.finished_at - attempt.started_at).total_seconds()
    # A node that stops ends its attempts without measuring them.
    run_seconds = attempt.usage.run_seconds if attempt.usage is not None else 0.0
    return min(between, run_seconds) if run_seconds else between


def last_attempt(task: TaskView) -> AttemptView | None:
    return max(task.attempts, key=lambda attempt: attempt.number, default=None)


def describe_place(attempt: AttemptView) -> str:
    """The node and its devices."""
    devices = ", ".join(device.model for device in attempt.devices)
    return printable(f"{attempt.node_name} ({devices})" if devices else attempt.node_name)


def describe_stage(task: TaskView, is_live: bool = False) -> str:
    """The phase, and where it runs or why it waits; of an array, its progress.

    Progress is a bar in a live line; elsewhere it changes rarely.
    """
    attempt = last_attempt(task)
    phase, reason = printable(task.phase), describe_reason(task)
    if task.items is not None and not (reason and task.items.pending == task.items.total):
        # Between two ranges an array is assigned or queued again, which is shown as running.
        shown_phase = TaskState.RUNNING.value if percent_done(task.items) else phase
        return f"{shown_phase}: {describe_progress(task.items, is_live)}"
    if is_live and task.silence is not None and attempt is not None:
        # The time fits a line of 80 columns.
        until = f"{task.silence.until.astimezone():%H:%M:%S}"
        return f"{printable(attempt.node_name)} is silent; the task moves elsewhere at {until}"
    if task.state is not TaskState.QUEUED and attempt is not None:
        place = f"{phase} on {describe_place(attempt)}"
        return f"{place}: {reason}" if reason else place
    return f"{phase}: {reason}" if reason else phase


def suggest_next_command(task: TaskView) -> str:
    """The command that shows the end or the output of a task in the background."""
    if task.items is not None:
        return f"`potluck result --wait {short_id(task.id)}` waits for its end and shows its output"
    return f"`potluck logs -f {short_id(task.id)}` shows its output"


def exit_status(task: TaskView) -> int:
    """The exit status of `run`: the task's own, as a shell would report it."""
    if task.state is TaskState.CANCELLED:
        return 130
    if task.state is TaskState.SUCCEEDED:
        return 0
    if task.exit_code is None or task.exit_code == 0:
        return 1
    # A negative exit code is a signal, as in Python's subprocess.
    return 128 - task.exit_code if task.exit_code < 0 else task.exit_code


def summarize_task(task: TaskView, now: datetime) -> str:
    """One line for the end of a task."""
    parts = [f"{printable(task.name)} {task.state}"]
    attempt = last_attempt(task)
    ran = duration_seconds(task, now)
    if ran is not None:
        parts[0] += f" after {show_seconds(ran)}"
    if task.items is not None:
        parts.append(describe_counts(task.items))
    elif attempt is not None:
        parts[0] += f" on {describe_place(attempt)}"
    is_counted = task.items is not None and (
        task.reason is EndReason.ITEMS_FAILED or task.state is TaskState.SUCCEEDED
    )
    if not is_counted and (reason := describe_reason(task)):
        parts.append(reason)
    return ": ".join(parts)
