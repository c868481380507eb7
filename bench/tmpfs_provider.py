"""Runs `potluck`, but keeps the work directories of all tasks in memory. For `disks.py`."""

from potluck.cli.main import main
from potluck.provider.sandbox.driver import Confinement
from potluck.provider.sandbox.work_disk import MemoryDisk, WorkDisk, WorkDisks


async def _take_memory(_: WorkDisks, __: Confinement) -> WorkDisk:
    return MemoryDisk()


if __name__ == "__main__":
    WorkDisks.take = _take_memory  # type: ignore[method-assign, assignment]
    main()
