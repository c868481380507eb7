"""A file system of a fixed size in a sparse file on the owner's disk, mounted by a loop device.

The file has no name and the loop device clears itself. So both disappear with the last user of the
file system, also if this process is killed; only its mount point has to be removed. The kernel
enforces the size. It needs root, mke2fs and loop devices: whoever wants to know
whether it works tries it.
"""

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import struct
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from potluck.model.task import MIB

_BLOCK_BYTES = 4096
_INODE_BYTES = 256
# A file for each of so many bytes. The inode tables of files that do not exist take no space.
_BYTES_PER_FILE = 8192
_LEAST_FILES = 512
# Bitmaps and descriptors of block groups; the superblock; and what ext4 keeps for itself.
_GROUPS_DIVISOR = 2_000
_SUPERBLOCK_BYTES = 128 * 1024
_RESERVE_DIVISOR, _MOST_RESERVE_BYTES = 50, 16 * MIB
_FORMAT_SECONDS = 120.0
_STAT_BLOCK_BYTES = 512
_PROGRAM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"

# From linux/mount.h and linux/loop.h.
_NO_SETUID, _NO_DEVICES, _NO_ACCESS_TIMES, _DETACH = 2, 4, 1024, 2
_GET_FREE_LOOP, _CONFIGURE_LOOP = 0x4C82, 0x4C0A
_AUTOCLEAR, _DIRECT_IO = 4, 16
_LOOP_TRIES = 20
# fd, block size; loop_info64: five numbers, of which the third to fifth are zero, its number and
# encryption, flags, and names; eight reserved numbers.
_LOOP_CONFIG = struct.Struct("=II 40x 12x I 160x 16x 64x")


class ImageFailed(Exception):
    """An image cannot be made or mounted here; the message says why."""


class DiskImage(Struct, frozen=True):
    """A formatted image at a loop device. Its methods may wait for the disk: use a thread."""

    file: int  # the sparse file; its blocks are what it takes of the disk
    device: int  # keeps the loop device
    device_name: str

    @property
    def held_bytes(self) -> int:
        return os.fstat(self.file).st_blocks * _STAT_BLOCK_BYTES

    def mount(self, path: Path) -> int:
        """Returns a descriptor that keeps it mounted, also without the mount point."""
        path.mkdir(parents=True, exist_ok=True)
        flags = _NO_SETUID | _NO_DEVICES | _NO_ACCESS_TIMES
        # No inode tables are written in advance: they would fill the sparse file.
        options = b"noinit_itable,errors=remount-ro"
        source, target = os.fsencode(self.device_name), os.fsencode(path)
        if _libc().mount(source, target, b"ext4", flags, options) != 0:
            number = ctypes.get_errno()
            remove_mount_point(path)
            raise OSError(number, f"cannot mount the image: {os.strerror(number)}")
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.device)
        os.close(self.file)


def image_bytes(usable_bytes: int) -> int:
    """The size of an image in which files can take `usable_bytes`."""
    needed = usable_bytes + _file_count(usable_bytes) * _INODE_BYTES + _SUPERBLOCK_BYTES
    needed += needed // _GROUPS_DIVISOR
    whole = needed + min(needed // (_RESERVE_DIVISOR - 1), _MOST_RESERVE_BYTES)
    return -(-whole // _BLOCK_BYTES) * _BLOCK_BYTES


def make_image(directory: Path, usable_bytes: int) -> DiskImage:
    """Makes an image on the disk of the directory; raises ImageFailed."""
    try:
        with ExitStack() as on_failure:
            file = _new_file(directory)
            on_failure.callback(os.close, file)
            os.ftruncate(file, image_bytes(usable_bytes))
            _format(file, usable_bytes)
            device, device_name = _attach(file)
            on_failure.callback(os.close, device)
            image = DiskImage(file, device, device_name)
            _empty(image, directory / secrets.token_hex(8))
            on_failure.pop_all()
            return image
    except (OSError, subprocess.SubprocessError) as error:
        raise ImageFailed(str(error)) from error


def _empty(image: DiskImage, path: Path) -> None:
    """Removes what mke2fs puts into every file system."""
    directory = image.mount(path)
    try:
        (path / "lost+found").rmdir()
        path.chmod(0o777)
    finally:
        os.close(directory)
        remove_mount_point(path)


def unmount(path: Path) -> bool:
    """Returns whether something was mounted there. Never waits for what uses it."""
    return bool(_libc().umount2(os.fsencode(path), _DETACH) == 0)


def mount_tmpfs(path: Path, size_bytes: int, files: int) -> bool:
    """Returns whether it worked; root in a container may not be allowed to mount."""
    options = f"size={size_bytes},nr_inodes={files},mode=0777".encode()
    flags = _NO_SETUID | _NO_DEVICES
    return bool(_libc().mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, options) == 0)


def _file_count(usable_bytes: int) -> int:
    return max(_LEAST_FILES, usable_bytes // _BYTES_PER_FILE)


def _new_file(directory: Path) -> int:
    name = directory / f".{secrets.token_hex(8)}.image"
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    name.unlink()
    return file


def _format(file: int, usable_bytes: int) -> None:
    """Without a journal: after a crash nothing of it is used again."""
    program = shutil.which("mke2fs", path=_PROGRAM_PATH)
    if program is None:
        raise ImageFailed("mke2fs is not installed")
    numbers = (
        "-b",
        str(_BLOCK_BYTES),
        "-I",
        str(_INODE_BYTES),
        "-N",
        str(_file_count(usable_bytes)),
    )
    features = ("-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard", "-m", "0")
    made = subprocess.run(
        [program, "-q", "-F", "-t", "ext4", *numbers, *features, f"/proc/self/fd/{file}"],
        env={"PATH": _PROGRAM_PATH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(file,),
        timeout=_FORMAT_SECONDS,
        check=False,
    )
    if made.returncode != 0:
        raise ImageFailed(f"mke2fs failed: {made.stderr.decode(errors='replace').strip()}")


def _attach(file: int) -> tuple[int, str]:
    """A loop device for the file, which clears itself when its last user is gone.

    Without the page cache of the file, since the file system above has its own; a file system that
    does not support that ignores it.
    """
    config = _LOOP_CONFIG.pack(file, _BLOCK_BYTES, _AUTOCLEAR | _DIRECT_IO)
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_LOOP_TRIES):
            name = f"/dev/loop{fcntl.ioctl(control, _GET_FREE_LOOP)}"
            device = os.open(name, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _CONFIGURE_LOOP, config)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:  # another process was faster
                    raise
            else:
                return device, name
    finally:
        os.close(control)
    raise ImageFailed("no loop device is free")


def remove_mount_point(path: Path) -> None:
    """Sandboxes and descriptors that have what was mounted there still see it."""
    while unmount(path):
        pass
    with suppress(OSError):
        path.rmdir()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
