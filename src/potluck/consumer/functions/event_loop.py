"""Detects an event loop in this thread, which must not be blocked by the network."""

import sys


def in_event_loop() -> bool:
    if "asyncio" not in sys.modules:
        return False
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
