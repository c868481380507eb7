"""Measures how late the event loop of this instance runs a timer."""

import asyncio

from potluck.server.services import Services

_INTERVAL_SECONDS = 0.5


async def measure_loop_lag(services: Services) -> None:
    clock, lag = asyncio.get_running_loop(), services.metrics.loop_lag
    while True:
        due_at = clock.time() + _INTERVAL_SECONDS
        await asyncio.sleep(_INTERVAL_SECONDS)
        lag.observe(max(0.0, clock.time() - due_at))
