"""Lets the errand of a run put in place what the task needs, while nothing of it runs yet."""

import asyncio

from potluck.provider.sandbox.driver import Errand, InputFailed, Recall, Touched, WorkDirectory
from potluck.provider.sandbox.event_loop import drop


async def outfit(errand: Errand, work: WorkDirectory, recall: Recall) -> Touched | None:
    """What the run ends with before it has begun; None when it can begin.

    Large inputs take a while, and whoever calls the run back does not wait for them.
    """
    bringing = asyncio.create_task(_before(errand, work))
    asked = asyncio.create_task(recall.asked())
    try:
        await asyncio.wait({bringing, asked}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return recall.said
        bringing.result()
    except InputFailed as failure:
        return failure.touched
    finally:
        await drop(bringing, asked)
    return None


async def _before(errand: Errand, work: WorkDirectory) -> None:
    await errand.before(work)
