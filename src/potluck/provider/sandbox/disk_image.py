"""A file system of a fixed size in a sparse file on the owner's disk, mounted by a loop device.

The file has no name and the loop device clears itself. So both disappear with the last user of the
file system, also if this process is killed; only its mount point has to be removed. The kernel
enforces the size. It needs root, mke2fs and loop devices; only a try shows whether it works.
"""

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from potluck.model.task import MIB

_BLOCK_BYTES = 4096
_INODE_BYTES = 256
# A file for each of so many bytes. The inode tables of files that do not exist take no space.
_BYTES_PER_FILE = 8192
_LEAST_FILES = 4096
# Bitmaps and descriptors of block groups; the superblock; and what ext4 keeps for itself.
_GROUPS_DIVISOR = 2_000
_SUPERBLOCK_BYTES = 128 * 1024
_RESERVE_DIVISOR, _MOST_RESERVE_BYTES = 50, 16 * MIB
_FORMAT_SECONDS = 120.0
_STAT_BLOCK_BYTES = 512
_PROGRAM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"

# From linux/mount.h, linux/fcntl.h and linux/loop.h.
_NO_SETUID, _NO_DEVICES, _DETACH = 2, 4, 2
_NO_SETUID_MOUNT, _NO_DEVICES_MOUNT, _NO_ACCESS_TIMES_MOUNT = 2, 4, 16
_SET_FLAG, _SET_STRING, _CREATE = 0, 1, 6
_CLOSE_ON_EXEC, _EMPTY_PATH, _HERE = 1, 4, -100
# Numbers of system calls that are the same on every processor.
_MOVE_MOUNT, _OPEN_FILE_SYSTEM, _CONFIGURE, _MAKE_MOUNT = 429, 430, 431, 432
_GET_FREE_LOOP, _CONFIGURE_LOOP = 0x4C82, 0x4C0A
_AUTOCLEAR, _DIRECT_IO = 4, 16
_LOOP_TRIES = 20
# fd, block size; loop_info64: five numbers, of which the third to fifth are zero, its number and
# encryption, flags, and names; eight reserved numbers.
_LOOP_CONFIG = struct.Struct("=II 40x 12x I 160x 16x 64x")


class ImageFailed(Exception):
    """An image cannot be made or mounted here; the message says why."""


class DiskImage(Struct, frozen=True):
    """A new file system that is mounted nowhere yet."""

    file: int  # the sparse file; its blocks are what it takes of the disk
    mount: int  # keeps it mounted
    directory: int  # its root

    @property
    def held_bytes(self) -> int:
        return os.fstat(self.file).st_blocks * _STAT_BLOCK_BYTES

    def attach(self, path: Path) -> None:
        """Makes it appear at a new directory. Takes no time worth mentioning."""
        path.mkdir()
        try:
            _call(_MOVE_MOUNT, self.mount, b"", _HERE, os.fsencode(path), _EMPTY_PATH)
        except OSError:
            path.rmdir()
            raise

    def close(self) -> None:
        """Unmounts it, which may wait for the disk: use a thread."""
        for descriptor in (self.directory, self.mount, self.file):
            os.close(descriptor)


class ImageTemplate(Struct, frozen=True):
    """The content of an empty file system of one size: mke2fs takes longer than writing it."""

    usable_bytes: int
    size_bytes: int
    parts: tuple[tuple[int, bytes], ...]  # with their positions in the file

    def make_image(self, directory: Path) -> DiskImage:
        """A file system on the disk of the directory; raises ImageFailed."""
        try:
            file = _new_file(directory, self.size_bytes)
        except OSError as error:
            raise ImageFailed(str(error)) from error
        try:
            for position, content in self.parts:
                os.lseek(file, position, os.SEEK_SET)
                if os.write(file, content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return DiskImage(file, *_mount(file))
        except (OSError, ImageFailed) as error:
            os.close(file)
            raise ImageFailed(str(error)) from error


def make_template(directory: Path, usable_bytes: int) -> ImageTemplate:
    """A template of images in which files can take `usable_bytes`; raises ImageFailed."""
    size_bytes = image_bytes(usable_bytes)
    try:
        file = _new_file(directory, size_bytes)
        try:
            _format(file, usable_bytes)
            mount, root = _mount(file)
            try:
                os.rmdir("lost+found", dir_fd=root)
                os.fchmod(root, 0o777)
            finally:
                os.close(root)
                os.close(mount)
            return ImageTemplate(usable_bytes, size_bytes, tuple(_parts(file, size_bytes)))
        finally:
            os.close(file)
    except (OSError, subprocess.SubprocessError) as error:
        raise ImageFailed(str(error)) from error


def image_bytes(usable_bytes: int) -> int:
    """The size of an image in which files can take `usable_bytes`."""
    needed = usable_bytes + _file_count(usable_bytes) * _INODE_BYTES + _SUPERBLOCK_BYTES
    needed += needed // _GROUPS_DIVISOR
    whole = needed + min(needed // (_RESERVE_DIVISOR - 1), _MOST_RESERVE_BYTES)
    return -(-whole // _BLOCK_BYTES) * _BLOCK_BYTES


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


def _new_file(directory: Path, size_bytes: int) -> int:
    name = directory / f".{secrets.token_hex(8)}.image"
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        name.unlink()
        os.ftruncate(file, size_bytes)
    except OSError:
        os.close(file)
        raise
    return file


def _parts(file: int, size_bytes: int) -> Iterator[tuple[int, bytes]]:
    """What is in a sparse file, without its holes."""
    position = 0
    while True:
        try:
            position = os.lseek(file, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing follows
                return
            raise
        end = min(os.lseek(file, position, os.SEEK_HOLE), size_bytes)
        yield position, os.pread(file, end - position, position)
        position = end


def _mount(file: int) -> tuple[int, int]:
    """Descriptors of a mount that appears nowhere yet, and of its root."""
    device, name = _attach(file)
    try:
        context = _call(_OPEN_FILE_SYSTEM, b"ext4", _CLOSE_ON_EXEC)
        try:
            _call(_CONFIGURE, context, _SET_STRING, b"source", os.fsencode(name), 0)
            # No inode tables are written in advance: they would fill the sparse file.
            _call(_CONFIGURE, context, _SET_FLAG, b"noinit_itable", None, 0)
            _call(_CONFIGURE, context, _SET_STRING, b"errors", b"remount-ro", 0)
            _call(_CONFIGURE, context, _CREATE, None, None, 0)
            flags = _NO_SETUID_MOUNT | _NO_DEVICES_MOUNT | _NO_ACCESS_TIMES_MOUNT
            mount = _call(_MAKE_MOUNT, context, _CLOSE_ON_EXEC, flags)
        finally:
            os.close(context)
    finally:
        os.close(device)  # a mount keeps it
    try:
        return mount, os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)
    except OSError:
        os.close(mount)
        raise


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


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that the C library of older systems does not have."""
    typed = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    result = int(_libc().syscall(ctypes.c_long(number), *typed))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
