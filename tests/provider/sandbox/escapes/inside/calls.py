"""System calls by name, past the C library's own opinion of their arguments."""

import ctypes
import errno
import os
import platform

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_IS_ARM = platform.machine() == "aarch64"
# On x86_64 and on aarch64; written down here, and not taken from the filter that is tried.
_NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "mq_open": (240, 180),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmget": (29, 194),
    "socket": (41, 198),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# Said before the kernel looks at what it was given.
_SHUT = {errno.EPERM, errno.EACCES, errno.ENOSYS}

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None


def call(name: str, *arguments: Argument) -> int:
    number = _NUMBERS[name][_IS_ARM]
    if number is None:
        raise OSError(errno.ENOSYS, name)
    parameters = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    ctypes.set_errno(0)
    result = _LIBC.syscall(ctypes.c_long(number), *parameters)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def passes(name: str, *arguments: Argument) -> str:
    """For calls that would do harm: with arguments that make no sense, and open if that is said."""
    try:
        return f"{name} returned {call(name, *arguments)}"
    except OSError as error:
        if error.errno in _SHUT:
            raise
        return f"{name} looked at its arguments: {error.strerror}"


def room(size: int) -> ctypes.Array[ctypes.c_char]:
    """Zeros that the kernel may write to."""
    return ctypes.create_string_buffer(size)


def address_of(buffer: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(buffer)
