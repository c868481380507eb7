"""Lets the errand of a run put in place what the task needs, while nothing of it runs yet."""

from potluck.provider.sandbox.driver import (
    Errand,
    InputFailed,
    Recall,
    Recalled,
    Touched,
    WorkDirectory,
)


async def outfit(errand: Errand, work: WorkDirectory, recall: Recall) -> Touched | None:
    """What the run ends with before it has begun; None when it can begin.

    Large inputs take a while, and whoever calls the run back does not wait for them.
    """
    try:
        await recall.unless(errand.before(work))
    except (InputFailed, Recalled) as failure:
        return failure.touched
    return None
