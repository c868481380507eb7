"""The host directory of one container: its work directory and the few files mounted into it.

As root the work directory is a tmpfs with a fixed size. Otherwise it is a plain directory whose
size a watchdog checks. Both are removed with the run, or when the provider starts again.
"""

import ctypes
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from potluck.provider.sandbox.plain_directory import NAME_BYTES, DirectoryGauge, remove_tree

DIRECTORY = "docker"  # of all runs, below the sandbox's state directory
_NO_SETUID, _NO_DEVICES, _DETACH = 2, 4, 2  # from linux/mount.h


class ContainerWork:
    """Call `remove` when no process uses it any more."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = directory
        self.path = directory / "work"
        self._gauge = DirectoryGauge(self.path, limit_bytes)
        remove_run_directory(directory)
        # The engine mounts its content; other users of this machine have no access.
        directory.mkdir(parents=True, mode=0o700)
        self.path.mkdir()
        self.is_file_system = os.geteuid() == 0 and _mount(self.path, limit_bytes)
        self.path.chmod(0o777)
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

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
        if not self.is_file_system:
            return 0
        space = os.fstatvfs(self.descriptor)
        return (space.f_blocks - space.f_bfree) * space.f_frsize

    def is_full(self) -> bool:
        if not self.is_file_system:
            return self._gauge.is_full()
        space = os.fstatvfs(self.descriptor)
        return space.f_bavail == 0 or space.f_favail == 0

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
    while (directory / "work").is_mount() and _unmount(directory / "work"):
        pass
    remove_tree(directory)


def _mount(path: Path, limit_bytes: int) -> bool:
    """Returns whether it worked; root in a container may not be allowed to mount."""
    names = limit_bytes // NAME_BYTES
    options = f"size={limit_bytes},nr_inodes={names},mode=0777".encode()
    flags = _NO_SETUID | _NO_DEVICES
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, options) == 0)


def _unmount(path: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.umount2(os.fsencode(path), _DETACH) == 0)
