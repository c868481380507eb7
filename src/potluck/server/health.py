"""What this instance last found out about its own health; `server/loops/health.py` writes it."""

from potluck import __version__
from potluck.wire.consumer import ServerReadiness

OK = "ok"
# Of a part that can only be asked through another one, which does not answer.
UNKNOWN = "unknown"
# Requests fail without these.
_NEEDED = ("database",)


class HealthRecord:
    """Read by every health check, so that a request for it costs nothing."""

    def __init__(self) -> None:
        self.latest = ServerReadiness("not ready", __version__, {"database": "not checked yet"})


def overall_status(parts: dict[str, str]) -> str:
    if any(parts[name] != OK for name in _NEEDED):
        return "not ready"
    return OK if all(state == OK for state in parts.values()) else "degraded"
