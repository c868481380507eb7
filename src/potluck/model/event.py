"""Facts that somebody may be told, in the order in which they were committed."""

from enum import StrEnum


class EventKind(StrEnum):
    """What happened."""

    TASK_QUEUED = "task.queued"  # submitted, or back in the queue after a lost attempt
    TASK_ASSIGNED = "task.assigned"  # a node was chosen
    TASK_RUNNING = "task.running"  # the consumer's code started
    TASK_FINISHED = "task.finished"  # it reached a final state
    NODE_ONLINE = "node.online"  # a provider registered or spoke again
    NODE_SILENT = "node.silent"  # a provider fell silent
