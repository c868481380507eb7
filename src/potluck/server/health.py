"""What this instance last found out about its own health; `server/loops/health.py` writes it."""

from msgspec.structs import replace

from potluck import __version__
from potluck.wire.consumer import ServerReadiness

OK = "ok"
# Of a part that can only be asked through another one, which does not answer.
UNKNOWN = "unknown"
# Statuses with 503.
NOT_READY, STOPPING = "not ready", "stopping"
# Requests fail without these.
_NEEDED = ("database",)


class HealthRecord:
    """Read by every health check, so that a request for it costs nothing."""

    def __init__(self) -> None:
        self.latest = ServerReadiness(NOT_READY, __version__, {"database": "not checked yet"})
        self._is_stopping = False
        self.free_bytes: int | None = None  # in the data directory; None until it was measured

    def stop(self) -> None:
        """From now on load balancers should send requests elsewhere."""
        self._is_stopping = True

    @property
    def shown(self) -> ServerReadiness:
        return replace(self.latest, status=STOPPING) if self._is_stopping else self.latest


def overall_status(parts: dict[str, str]) -> str:
    if any(parts[name] != OK for name in _NEEDED):
        return NOT_READY
    return OK if all(state == OK for state in parts.values()) else "degraded"
