"""The kinds of events, which are numbered in the order of their commits."""

from enum import StrEnum


class EventKind(StrEnum):
    """What happened."""

    TASK_QUEUED = "task.queued"  # submitted, or back in the queue after a lost attempt
    TASK_ASSIGNED = "task.assigned"  # a node was chosen
    TASK_RUNNING = "task.running"  # the consumer's code started
    TASK_FINISHED = "task.finished"  # it reached a final state
    ATTEMPT_GRANTED = "attempt.granted"  # devices are reserved, and the node can fetch it
    ATTEMPT_PREPARING = "attempt.preparing"  # the node installs dependencies
    ATTEMPT_RUNNING = "attempt.running"  # the consumer's code started on that node
    # The credit for it ran out; the node is asked to stop it with a checkpoint.
    ATTEMPT_UNFUNDED = "attempt.unfunded"
    ATTEMPT_ENDED = "attempt.ended"  # it succeeded, failed, was cancelled or was lost
    NODE_ONLINE = "node.online"  # a node registered, or sends heartbeats again
    NODE_SILENT = "node.silent"  # a node stopped sending heartbeats
    NODE_LEFT = "node.left"  # the owner of a node removed it
    NODE_LOST = "node.lost"  # a node has been silent for minutes
    NODE_RETURNED = "node.returned"  # a lost node sends heartbeats again
    DEVICE_SICK = "device.sick"  # a device does not work correctly, and gets no new work
    DEVICE_WELL = "device.well"  # it works again
    DEVICE_HOT = "device.hot"  # a device is too hot, or slowed down by heat or lack of power
    DEVICE_COOL = "device.cool"  # it is no longer
    WEBHOOK_PAUSED = "webhook.paused"  # a webhook was paused because its receiver fails
    WEBHOOK_TEST = "webhook.test"  # a test by the owner of a webhook

    @property
    def is_of_task(self) -> bool:
        return self.value.startswith(("task.", "attempt."))
