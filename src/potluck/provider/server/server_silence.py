"""Announces outages of the server."""

import math
import time

from potluck.model.error import PotluckError
from potluck.provider.announcement import Announce, ServerAnswers, ServerSilent

_REPEAT_SECONDS = 10.0


class ServerSilence:
    """Announces the start of a silence, repeats it at intervals, and announces the end."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._since: float | None = None
        self._announced_at = -math.inf
        self._is_announced = False
        self.error: PotluckError | None = None

    def noticed(self, error: PotluckError) -> None:
        self.error = error
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._announced_at >= _REPEAT_SECONDS:
            self._announced_at, self._is_announced = now, True
            self._announce(ServerSilent(error.code, error.detail, error.hint))

    def broken(self) -> None:
        if self._since is not None and self._is_announced:
            self._announce(ServerAnswers(time.monotonic() - self._since))
        self._since, self._is_announced, self.error = None, False, None
