"""Where the work directories of runs are, and what limits their size.

As root each is a disk image of its own, and the kernel enforces the limit. Where that does not
work, it is a directory on the owner's disk that a watchdog scans; a task of another account then
gets a tmpfs instead, unless the owner lets it use the disk. Neither is shared between runs.
"""

import asyncio
import os
import secrets
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import structlog

from potluck.local.shielded import finish_despite_cancel
from potluck.model.node import DISK_IMAGE, DISK_TMPFS, DISK_WATCHDOG
from potluck.model.task import MIB
from potluck.provider.sandbox.disk_image import (
    DiskImage,
    ImageFailed,
    ImageTemplate,
    make_template,
    remove_mount_point,
)
from potluck.provider.sandbox.driver import Confinement
from potluck.provider.sandbox.plain_directory import (
    DirectoryGauge,
    is_full,
    remove_tree,
    used_bytes,
)

log = structlog.get_logger()

DISKS = "disks"  # below the sandbox's state directory
# For cached pages of files, beside the memory of a task; those of a tmpfs count as its disk.
CACHE_BYTES = 32 * MIB
_USUAL_BYTES = 256 * MIB
_MOST_SPARES = 2
_REFILL_SECONDS = 1.0
_MOST_TEMPLATES = 4
# The content of a larger one is deleted before the image is closed: the kernel would write it out.
_MOST_WRITTEN_BYTES = 16 * MIB


class WorkDisk(Protocol):
    """The work directory of one run."""

    mechanism: str

    @property
    def source(self) -> Path | None:
        """What to mount as the work directory; None: a tmpfs."""
        ...

    @property
    def held_bytes(self) -> int:
        """What it takes of the owner's disk."""
        ...

    def is_full(self) -> bool: ...

    def measure(self) -> None:
        """Makes `is_full` exact. Call it in a thread."""
        ...

    def detach(self) -> None:
        """Removes `source`, which a sandbox has mounted. It then vanishes with the sandbox, also
        if this process is killed."""
        ...

    def release(self) -> None:
        """Removes it. Call it in a thread, when no process of the run is left."""
        ...


class MemoryDisk:
    """A tmpfs, which the sandbox mounts, measures and removes."""

    mechanism = DISK_TMPFS
    source = None
    held_bytes = 0

    def is_full(self) -> bool:
        return False

    def measure(self) -> None:
        pass

    def detach(self) -> None:
        pass

    def release(self) -> None:
        pass


class ImageDisk:
    """A disk image, attached at `source` until the sandbox has it."""

    mechanism = DISK_IMAGE

    def __init__(self, image: DiskImage, path: Path, limit_bytes: int) -> None:
        image.attach(path)
        self._image = image
        self.limit_bytes = limit_bytes
        self.source: Path | None = path

    @property
    def held_bytes(self) -> int:
        return self._image.held_bytes

    def is_full(self) -> bool:
        return is_full(self._image.directory, self.limit_bytes)

    def measure(self) -> None:
        pass

    def detach(self) -> None:
        if self.source is not None:
            remove_mount_point(self.source)
            self.source = None

    def release(self) -> None:
        self.detach()
        if used_bytes(self._image.directory) > _MOST_WRITTEN_BYTES:
            remove_tree(Path(f"/proc/self/fd/{self._image.directory}"))
        self._image.close()


class DirectoryDisk:
    """A directory below one that only the provider's user may enter."""

    mechanism = DISK_WATCHDOG

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._gauge = DirectoryGauge(path, limit_bytes)
        self.source: Path | None = path
        path.mkdir(parents=True)
        path.chmod(0o777)

    @property
    def held_bytes(self) -> int:
        return min(self._gauge.measured_bytes, self._limit_bytes)

    def is_full(self) -> bool:
        return self._gauge.is_full()

    def measure(self) -> None:
        self._gauge.measure()

    def detach(self) -> None:
        pass

    def release(self) -> None:
        remove_tree(self._path)


class WorkDisks:
    """Makes work directories below `directory`. Call `probe` first.

    A run does not wait until its image is formatted: one of each size that was used last is kept
    ready, but not mounted. It takes some hundred KiB of the disk.
    """

    def __init__(
        self, directory: Path, may_others: Callable[[], bool], *, has_tmpfs: bool = True
    ) -> None:
        self._directory = directory
        self._may_others = may_others
        self._has_tmpfs = has_tmpfs
        self._has_images = False
        self._spares: dict[int, DiskImage] = {}  # by size, the last used one at the end
        self._templates: dict[int, ImageTemplate] = {}  # by size
        self._filling: set[int] = set()  # sizes
        self._working: set[asyncio.Task[None]] = set()
        self._taken: set[WorkDisk] = set()
        # A driver that is replaced by another one leaves no loop devices behind.
        weakref.finalize(self, _close_all, self._spares)
        self.problem = ""  # why there are no images

    @property
    def mechanism(self) -> str:
        return DISK_IMAGE if self._has_images else DISK_WATCHDOG

    @property
    def held_bytes(self) -> int:
        """What current runs take of the owner's disk."""
        return sum(disk.held_bytes for disk in self._taken)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the owner, about what is not enforced by the kernel."""
        if self._has_images:
            return ()
        limit = f"a task's disk is a directory whose size a watchdog checks: {self.problem}"
        if not self._has_tmpfs or self._may_others():
            return (limit,)
        others = "tasks of other accounts have theirs in memory"
        return (limit, f"{others}, unless you `potluck provider set others_on_disk=yes`")

    async def probe(self) -> None:
        """Tries to make an image."""
        if os.geteuid() != 0:
            self.problem = "the provider does not run as root"
            return
        try:
            self._spares[_USUAL_BYTES] = await self._make_image(_USUAL_BYTES)
        except ImageFailed as failure:
            self.problem = str(failure)
        self._has_images = not self.problem

    async def take(self, confinement: Confinement) -> WorkDisk:
        """Raises ImageFailed or OSError. The caller has to `give_back` it."""
        size_bytes = confinement.disk_bytes
        if self._has_images:
            disk: WorkDisk = await self._take_image(size_bytes)
        elif self._has_tmpfs and confinement.is_of_other and not self._may_others():
            disk = MemoryDisk()
        else:
            disk = DirectoryDisk(self._new_path(), size_bytes)
        self._taken.add(disk)
        return disk

    async def give_back(self, disk: WorkDisk) -> None:
        """Removes it. What is left of an image is invisible to tasks, so nothing waits for it."""
        if isinstance(disk, ImageDisk) and disk.source is None:
            self._work(self._replace(disk))
            return
        self._taken.discard(disk)
        await asyncio.to_thread(disk.release)

    async def _replace(self, disk: ImageDisk) -> None:
        await self._fill(disk.limit_bytes)
        # First, since `held_bytes` must not ask about descriptors that the thread has closed.
        self._taken.discard(disk)
        await asyncio.to_thread(disk.release)

    async def _take_image(self, size_bytes: int) -> ImageDisk:
        spare = self._spares.pop(size_bytes, None)
        image = spare or await self._make_image(size_bytes)
        try:
            disk = ImageDisk(image, self._new_path(), size_bytes)
        except OSError:
            image.close()
            raise
        # Not now: it would slow this run down.
        asyncio.get_running_loop().call_later(
            _REFILL_SECONDS, lambda: self._work(self._fill(size_bytes))
        )
        return disk

    async def _make_image(self, size_bytes: int) -> DiskImage:
        """Without losing it if it is cancelled."""
        made: list[DiskImage] = []
        try:
            await finish_despite_cancel(
                asyncio.to_thread(lambda: made.append(self._new_image(size_bytes)))
            )
        except asyncio.CancelledError:
            for image in made:
                image.close()
            raise
        return made[0]

    def _work(self, duty: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(duty)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _fill(self, size_bytes: int) -> None:
        """Prepares the next image of this size, unless there is one."""
        if size_bytes in self._spares or size_bytes in self._filling:
            return
        self._filling.add(size_bytes)
        try:
            self._spares[size_bytes] = await self._make_image(size_bytes)
        except ImageFailed as failure:  # the next run fails with the same
            log.warning("cannot prepare a disk image", detail=str(failure))
        finally:
            self._filling.discard(size_bytes)
        while len(self._spares) > _MOST_SPARES:
            await asyncio.to_thread(self._spares.pop(next(iter(self._spares))).close)

    def _new_image(self, size_bytes: int) -> DiskImage:
        directory = self._make_directory()
        template = self._templates.pop(size_bytes, None) or make_template(directory, size_bytes)
        self._templates[size_bytes] = template  # the last used one at the end
        if len(self._templates) > _MOST_TEMPLATES:
            self._templates.pop(next(iter(self._templates)))
        return template.make_image(directory)

    def _new_path(self) -> Path:
        return self._make_directory() / secrets.token_hex(8)

    def _make_directory(self) -> Path:
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ImageFailed(str(error)) from error
        return self._directory

    async def reap(self) -> None:
        """Removes what an earlier process left. Nothing may run."""
        if self._working:
            await asyncio.wait(self._working)
        await asyncio.to_thread(remove_leftovers, self._directory)


def _close_all(spares: dict[int, DiskImage]) -> None:
    while spares:
        spares.popitem()[1].close()


def largest_file_bytes(confinement: Confinement) -> int:
    """The largest file that a watched run may write: those in /dev/shm count, too."""
    return max(confinement.disk_bytes, confinement.memory_bytes)


def remove_leftovers(directory: Path) -> None:
    """Unmounts and removes everything in the directory."""
    for path in directory.iterdir() if directory.is_dir() else ():
        remove_mount_point(path)
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
