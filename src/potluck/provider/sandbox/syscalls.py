"""System call numbers for each supported processor; None where its kernel has no such call.

Numbers never change once a kernel has shipped them.
"""

from enum import StrEnum

from msgspec import Struct


class Processor(StrEnum):
    """Processors that the filter supports, by their `uname -m` name."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"


class SystemCall(Struct, frozen=True):
    x86_64: int | None
    aarch64: int | None

    def number(self, machine: Processor) -> int | None:
        return self.x86_64 if machine is Processor.X86_64 else self.aarch64


# Allowed or refused depending on their arguments.
CLONE = SystemCall(56, 220)
CLONE3 = SystemCall(435, 435)
UNSHARE = SystemCall(272, 97)
SOCKET = SystemCall(41, 198)
SOCKETPAIR = SystemCall(53, 199)
IOCTL = SystemCall(16, 29)
PERSONALITY = SystemCall(135, 92)

# Refused with ENOSYS, so that programs fall back to plain system calls.
ABSENT = {
    "clone3": CLONE3,  # its flags lie in memory, where no filter can read them
    "io_uring_enter": SystemCall(426, 426),
    "io_uring_register": SystemCall(427, 427),
    "io_uring_setup": SystemCall(425, 425),
}

# Computations need none of these, and most of them have exposed kernel bugs.
FORBIDDEN = {
    "_sysctl": SystemCall(156, None),
    "acct": SystemCall(163, 89),
    "add_key": SystemCall(248, 217),
    "adjtimex": SystemCall(159, 171),
    "bpf": SystemCall(321, 280),
    "chroot": SystemCall(161, 51),
    "clock_adjtime": SystemCall(305, 266),
    "clock_settime": SystemCall(227, 112),
    "create_module": SystemCall(174, None),
    "delete_module": SystemCall(176, 106),
    "fanotify_init": SystemCall(300, 262),
    "finit_module": SystemCall(313, 273),
    "fsconfig": SystemCall(431, 431),
    "fsmount": SystemCall(432, 432),
    "fsopen": SystemCall(430, 430),
    "fspick": SystemCall(433, 433),
    "get_kernel_syms": SystemCall(177, None),
    "init_module": SystemCall(175, 105),
    "ioperm": SystemCall(173, None),
    "iopl": SystemCall(172, None),
    "kcmp": SystemCall(312, 272),
    "kexec_file_load": SystemCall(320, 294),
    "kexec_load": SystemCall(246, 104),
    "keyctl": SystemCall(250, 219),
    "lookup_dcookie": SystemCall(212, 18),
    "migrate_pages": SystemCall(256, 238),
    "modify_ldt": SystemCall(154, None),
    "mount": SystemCall(165, 40),
    "mount_setattr": SystemCall(442, 442),
    "move_mount": SystemCall(429, 429),
    "move_pages": SystemCall(279, 239),
    "name_to_handle_at": SystemCall(303, 264),
    "nfsservctl": SystemCall(180, 42),
    "open_by_handle_at": SystemCall(304, 265),
    "open_tree": SystemCall(428, 428),
    "open_tree_attr": SystemCall(467, 467),
    "perf_event_open": SystemCall(298, 241),
    "pidfd_getfd": SystemCall(438, 438),
    "pivot_root": SystemCall(155, 41),
    "process_madvise": SystemCall(440, 440),
    "process_vm_readv": SystemCall(310, 270),
    "process_vm_writev": SystemCall(311, 271),
    "ptrace": SystemCall(101, 117),
    "query_module": SystemCall(178, None),
    "quotactl": SystemCall(179, 60),
    "quotactl_fd": SystemCall(443, 443),
    "reboot": SystemCall(169, 142),
    "request_key": SystemCall(249, 218),
    "setdomainname": SystemCall(171, 162),
    "sethostname": SystemCall(170, 161),
    "setns": SystemCall(308, 268),
    "settimeofday": SystemCall(164, 170),
    "swapoff": SystemCall(168, 225),
    "swapon": SystemCall(167, 224),
    "sysfs": SystemCall(139, None),
    "syslog": SystemCall(103, 116),
    "umount2": SystemCall(166, 39),
    "uselib": SystemCall(134, None),
    "userfaultfd": SystemCall(323, 282),
    "ustat": SystemCall(136, None),
    "vhangup": SystemCall(153, 58),
    "vmsplice": SystemCall(278, 75),
}
