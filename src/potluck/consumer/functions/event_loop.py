"""Whether an event loop runs in this thread. Then nothing here may wait for the network: it would
stop all else that the loop does.
"""

import sys


def in_event_loop() -> bool:
    if "asyncio" not in sys.modules:  # nobody has one
        return False
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
