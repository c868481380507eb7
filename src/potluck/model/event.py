"""Facts that somebody may be told, in the order in which they were committed."""

from enum import StrEnum


class EventKind(StrEnum):
    """What happened."""

    TASK_QUEUED = "task.queued"  # submitted, or back in the queue after a lost attempt
    TASK_ASSIGNED = "task.assigned"  # a node was chosen
    TASK_RUNNING = "task.running"  # the consumer's code started
    TASK_FINISHED = "task.finished"  # it reached a final state
    ATTEMPT_GRANTED = "attempt.granted"  # devices are reserved, and the node may fetch it
    ATTEMPT_PREPARING = "attempt.preparing"  # the node installs what it needs
    ATTEMPT_RUNNING = "attempt.running"  # the consumer's code started on that node
    ATTEMPT_ENDED = "attempt.ended"  # it succeeded, failed, was cancelled or lost
    NODE_ONLINE = "node.online"  # a provider registered or spoke again
    NODE_SILENT = "node.silent"  # a provider fell silent
    NODE_LEFT = "node.left"  # a provider's owner took it away
    DEVICE_SICK = "device.sick"  # a device does not work as it should, and gets no new work
    DEVICE_WELL = "device.well"  # it works again
    WEBHOOK_PAUSED = "webhook.paused"  # an address takes no events any more, and gets none
    WEBHOOK_TEST = "webhook.test"  # its owner tries an address; nothing else has happened

    @property
    def is_of_task(self) -> bool:
        return self.value.startswith(("task.", "attempt."))
