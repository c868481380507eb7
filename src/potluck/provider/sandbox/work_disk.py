"""Where the work directories of runs are, and what limits their size.

As root each is a disk image of its own, and the kernel enforces the limit. Where that does not
work, it is a directory on the owner's disk that a watchdog scans; a task of another account then
gets a tmpfs instead, unless the owner lets it use the disk. Neither is shared between runs.
"""

import asyncio
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from potluck.local.shielded import finish_despite_cancel
from potluck.model.node import DISK_IMAGE, DISK_TMPFS, DISK_WATCHDOG
from potluck.model.task import MIB
from potluck.provider.sandbox.disk_image import (
    DiskImage,
    ImageFailed,
    make_image,
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
    """A disk image, mounted at `source` until the sandbox has it."""

    mechanism = DISK_IMAGE

    def __init__(self, image: DiskImage, path: Path, limit_bytes: int) -> None:
        self._image = image
        self._limit_bytes = limit_bytes
        self.source: Path | None = path
        self.descriptor = image.mount(path)

    @property
    def held_bytes(self) -> int:
        return self._image.held_bytes

    def is_full(self) -> bool:
        return is_full(self.descriptor, self._limit_bytes)

    def measure(self) -> None:
        pass

    def detach(self) -> None:
        if self.source is not None:
            remove_mount_point(self.source)
            self.source = None

    def release(self) -> None:
        if used_bytes(self.descriptor) > _MOST_WRITTEN_BYTES:
            remove_tree(Path(f"/proc/self/fd/{self.descriptor}"))
        self.detach()
        os.close(self.descriptor)
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
        self._filling: dict[int, asyncio.Task[None]] = {}
        self._taken: set[WorkDisk] = set()
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
            self._keep(_USUAL_BYTES, await asyncio.to_thread(self._new_image, _USUAL_BYTES))
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
        self._taken.discard(disk)
        await asyncio.to_thread(disk.release)

    async def _take_image(self, size_bytes: int) -> ImageDisk:
        spare = self._spares.pop(size_bytes, None)
        mounted: list[ImageDisk] = []

        def mount() -> None:
            image = spare or self._new_image(size_bytes)
            try:
                mounted.append(ImageDisk(image, self._new_path(), size_bytes))
            except OSError:
                image.close()
                raise

        try:
            await finish_despite_cancel(asyncio.to_thread(mount))
        except asyncio.CancelledError:
            for disk in mounted:
                await finish_despite_cancel(asyncio.to_thread(disk.release))
            raise
        finally:
            self._refill(size_bytes)
        return mounted[0]

    def _refill(self, size_bytes: int) -> None:
        """Prepares the next image of this size in the background."""
        if size_bytes in self._filling:
            return

        async def fill() -> None:
            try:
                self._keep(size_bytes, await asyncio.to_thread(self._new_image, size_bytes))
            except (ImageFailed, OSError) as failure:  # the next run fails with the same
                log.warning("cannot prepare a disk image", detail=str(failure))
            finally:
                del self._filling[size_bytes]

        self._filling[size_bytes] = asyncio.create_task(fill())

    def _keep(self, size_bytes: int, image: DiskImage) -> None:
        self._spares[size_bytes] = image
        while len(self._spares) > _MOST_SPARES:
            self._spares.pop(next(iter(self._spares))).close()

    def _new_image(self, size_bytes: int) -> DiskImage:
        return make_image(self._make_directory(), size_bytes)

    def _new_path(self) -> Path:
        return self._make_directory() / secrets.token_hex(8)

    def _make_directory(self) -> Path:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self._directory

    async def reap(self) -> None:
        """Removes what an earlier process left. Nothing may run."""
        if self._filling:
            await asyncio.wait(self._filling.values())
        await asyncio.to_thread(remove_leftovers, self._directory)


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
