"""Age makes up for priority."""

from potluck.decide.types import WaitingTask

# Waiting so long is worth one step of priority.
STEP_SECONDS = 300.0


def aged(task: WaitingTask) -> float:
    """A task is served as if it had come earlier by a step for each of its priority.

    That is the same as a priority that grows by one at each step, and needs no looking again.
    """
    return task.submitted_at - STEP_SECONDS * task.priority
