"""A lock of the operating system's: it ends with the process, however that ends."""

import sys

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def take(descriptor: int) -> bool:
    """Whether the open file is ours now; another process may hold it. Never waits."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter is how Windows says it
        return False
    return True
