"""An order policy: small tasks by day, so that people get answers; large ones by night.

pip install ./examples/policy
POTLUCK_ORDER_POLICY=night-shift potluck server

docs/policies.md describes the methods of a policy, and how to test it on a trace first.
"""

from potluck.decide.order.interface import Turn
from potluck.decide.types import WaitingTask

HOUR = 3600.0


class NightShift:
    promises = False  # age counts in both places below, so nothing waits forever

    def within(self, task: WaitingTask) -> float:
        """The older of an account's own tasks goes first."""
        return task.submitted_at

    def between(self, turn: Turn) -> tuple[float, ...]:
        """By day fewer devices go first, by night more; each hour of waiting is worth a device."""
        devices = turn.task.requirements.device_count
        hour_of_day = turn.now / HOUR % 24
        is_night = hour_of_day < 6 or hour_of_day >= 22
        waited_hours = (turn.now - turn.task.submitted_at) / HOUR
        return ((-devices if is_night else devices) - waited_hours, turn.task.submitted_at)
