"""A server that is away for a while costs a transfer nothing: it goes on where it was."""

import time

from potluck.consumer.http.transport import Patience
from potluck.model.error import PotluckError


class Absence:
    """Since something last arrived, there or here."""

    def __init__(self, patience: Patience):
        self._patience = patience
        self._failures = 0
        self._began = time.monotonic()

    def wait(self, error: PotluckError) -> None:
        """Until the next try; raises the error if that is not worth it, or no longer."""
        self._failures += 1
        asked, patience = error.retry_after_seconds, self._patience
        is_over = time.monotonic() - self._began > patience.give_up_seconds
        if not error.retryable or is_over or not patience.accepts(asked):
            raise error
        time.sleep(patience.pause_seconds(self._failures, asked))
