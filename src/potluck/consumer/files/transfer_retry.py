"""Retries of a transfer while the server is unreachable for a while."""

import time

from potluck.consumer.http.transport import Patience
from potluck.model.error import PotluckError


class TransferRetry:
    """The failures since the last progress."""

    def __init__(self, patience: Patience):
        self._patience = patience
        self._failures = 0
        self._began = time.monotonic()

    def wait(self, error: PotluckError) -> None:
        """Waits until the next try; raises the error if it is permanent or lasts too long."""
        self._failures += 1
        requested_seconds, patience = error.retry_after_seconds, self._patience
        is_over = time.monotonic() - self._began > patience.give_up_seconds
        if not error.retryable or is_over or not patience.accepts(requested_seconds):
            raise error
        time.sleep(patience.pause_seconds(self._failures, requested_seconds))
