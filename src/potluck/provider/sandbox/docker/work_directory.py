"""The host directory of one container: its work directory and the few files mounted into it.

The work directory is a WorkDisk, or a tmpfs that is mounted here, which takes root. All of it is
removed with the run, or when the provider starts again.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from potluck.model.node import DISK_TMPFS, DISK_WATCHDOG
from potluck.provider.sandbox.disk_image import mount_tmpfs, remove_mount_point
from potluck.provider.sandbox.plain_directory import NAME_BYTES, is_full, remove_tree, used_bytes
from potluck.provider.sandbox.work_disk import WorkDisk

# Below the sandbox's state directory: of all runs, and their work directories.
DIRECTORY = "docker"
CONTAINER_DISKS = "container-disks"


class ContainerWork:
    """Call `remove` when no process uses it any more."""

    def __init__(self, directory: Path, limit_bytes: int, disk: WorkDisk) -> None:
        self._directory = directory
        self._disk = disk
        remove_run_directory(directory)
        # The engine mounts its content; other users of this machine have no access.
        directory.mkdir(parents=True, mode=0o700)
        self.path = disk.source or self._mount_tmpfs(limit_bytes)
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _mount_tmpfs(self, limit_bytes: int) -> Path:
        path = self._directory / "work"
        path.mkdir()
        if not mount_tmpfs(path, limit_bytes, limit_bytes // NAME_BYTES):
            raise PermissionError("a tmpfs for its disk cannot be mounted here")
        return path

    @property
    def size_bytes(self) -> int:
        """Of the file system that it is in."""
        space = os.fstatvfs(self.descriptor)
        return space.f_blocks * space.f_frsize

    @property
    def is_in_memory(self) -> bool:
        return self._disk.mechanism == DISK_TMPFS

    @property
    def is_watched(self) -> bool:
        """Whether nothing but a watchdog limits its size."""
        return self._disk.mechanism == DISK_WATCHDOG

    @property
    def temporary(self) -> Path:
        return self.subdirectory(".tmp")

    def subdirectory(self, name: str) -> Path:
        path = self.path / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        return path

    def put(self, files: Mapping[str, bytes]) -> None:
        """Writes files that the task may change."""
        for name, content in files.items():
            assert "/" not in name and name not in {"", ".", ".."}
            path = self.path / name
            path.write_bytes(content)
            path.chmod(0o666)

    def hand_over(self, uid: int, mounted: Iterable[Path]) -> None:
        """Changes the owner of the work directory and of writable mounts (not recursively)."""
        for path in (self.path, *mounted):
            os.chown(path, uid, uid)

    def aside(self, name: str, text: str) -> Path:
        """Writes a read-only file outside the work directory."""
        path = self._directory / name
        path.write_text(text)
        path.chmod(0o444)
        return path

    def empty_directory(self) -> Path:
        """Outside the work directory, to be mounted over what should not be seen."""
        path = self._directory / "empty"
        path.mkdir(exist_ok=True, mode=0o555)
        return path

    def used_bytes(self) -> int:
        """Bytes that the kernel counts as the run's memory."""
        return used_bytes(self.descriptor) if self.is_in_memory else 0

    def is_full(self) -> bool:
        return is_full(self.descriptor) if self.is_in_memory else self._disk.is_full()

    def measure(self) -> None:
        self._disk.measure()

    def remove(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        remove_run_directory(self._directory)


def remove_run_directories(directory: Path) -> None:
    """Removes the directories of all earlier runs."""
    if directory.is_dir():
        for path in directory.iterdir():
            remove_run_directory(path)


def remove_run_directory(directory: Path) -> None:
    """Removes one run's directory, and unmounts its tmpfs."""
    if not directory.exists():
        return
    remove_mount_point(directory / "work")
    remove_tree(directory)
