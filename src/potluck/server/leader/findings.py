"""What the leader's own checks found in this term; alerts are derived from it."""

import asyncio

from potluck.decide.invariants import Violation

_MEMORY = "leader-memory"


class LeaderFindings:
    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop()
        self._round_at = self._clock.time()
        self._violations: tuple[Violation, ...] = ()
        self._differences = 0
        self.has_checked = False  # whether the invariants were checked in this term

    def note_round(self) -> None:
        """The scheduler has completed a round."""
        self._round_at = self._clock.time()

    def note_violations(self, violations: tuple[Violation, ...]) -> None:
        """All that are known, replacing those of the last check."""
        self._violations = violations
        self.has_checked = True

    def note_differences(self, count: int) -> None:
        """Between the leader's memory and the database, in the last audit."""
        self._differences = count

    @property
    def round_age_seconds(self) -> float:
        return self._clock.time() - self._round_at

    @property
    def violations(self) -> tuple[Violation, ...]:
        if not self._differences:
            return self._violations
        sentence = (
            f"the leader's memory differed from the database in {self._differences} places;"
            " they were corrected"
        )
        return (*self._violations, Violation(_MEMORY, sentence))
