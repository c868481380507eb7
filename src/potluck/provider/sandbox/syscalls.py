"""The numbers of the system calls that the filter names, for each processor it knows.

A number of None means that the processor's kernel has no such call. Numbers never change once a
kernel has shipped them.
"""

from enum import StrEnum

from msgspec import Struct


class Machine(StrEnum):
    """Processors that the filter can be built for, as `uname -m` calls them."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"


class Call(Struct, frozen=True):
    """One system call on both processors."""

    x86_64: int | None
    aarch64: int | None

    def number(self, machine: Machine) -> int | None:
        return self.x86_64 if machine is Machine.X86_64 else self.aarch64


# Calls that are looked at more closely: their arguments decide.
CLONE = Call(56, 220)
CLONE3 = Call(435, 435)
UNSHARE = Call(272, 97)
SOCKET = Call(41, 198)
SOCKETPAIR = Call(53, 199)
IOCTL = Call(16, 29)
PERSONALITY = Call(135, 92)

# Programs fall back to plain system calls when these do not exist, so they do not.
ABSENT = {
    "clone3": CLONE3,  # its flags lie in memory, where no filter can read them
    "io_uring_enter": Call(426, 426),
    "io_uring_register": Call(427, 427),
    "io_uring_setup": Call(425, 425),
}

# Nothing that computes needs these; kernel bugs have been reached through most of them.
FORBIDDEN = {
    "_sysctl": Call(156, None),
    "acct": Call(163, 89),
    "add_key": Call(248, 217),
    "adjtimex": Call(159, 171),
    "bpf": Call(321, 280),
    "chroot": Call(161, 51),
    "clock_adjtime": Call(305, 266),
    "clock_settime": Call(227, 112),
    "create_module": Call(174, None),
    "delete_module": Call(176, 106),
    "fanotify_init": Call(300, 262),
    "finit_module": Call(313, 273),
    "fsconfig": Call(431, 431),
    "fsmount": Call(432, 432),
    "fsopen": Call(430, 430),
    "fspick": Call(433, 433),
    "get_kernel_syms": Call(177, None),
    "init_module": Call(175, 105),
    "ioperm": Call(173, None),
    "iopl": Call(172, None),
    "kcmp": Call(312, 272),
    "kexec_file_load": Call(320, 294),
    "kexec_load": Call(246, 104),
    "keyctl": Call(250, 219),
    "lookup_dcookie": Call(212, 18),
    "migrate_pages": Call(256, 238),
    "modify_ldt": Call(154, None),
    "mount": Call(165, 40),
    "mount_setattr": Call(442, 442),
    "move_mount": Call(429, 429),
    "move_pages": Call(279, 239),
    "name_to_handle_at": Call(303, 264),
    "nfsservctl": Call(180, 42),
    "open_by_handle_at": Call(304, 265),
    "open_tree": Call(428, 428),
    "open_tree_attr": Call(467, 467),
    "perf_event_open": Call(298, 241),
    "pidfd_getfd": Call(438, 438),
    "pivot_root": Call(155, 41),
    "process_madvise": Call(440, 440),
    "process_vm_readv": Call(310, 270),
    "process_vm_writev": Call(311, 271),
    "ptrace": Call(101, 117),
    "query_module": Call(178, None),
    "quotactl": Call(179, 60),
    "quotactl_fd": Call(443, 443),
    "reboot": Call(169, 142),
    "request_key": Call(249, 218),
    "setdomainname": Call(171, 162),
    "sethostname": Call(170, 161),
    "setns": Call(308, 268),
    "settimeofday": Call(164, 170),
    "swapoff": Call(168, 225),
    "swapon": Call(167, 224),
    "sysfs": Call(139, None),
    "syslog": Call(103, 116),
    "umount2": Call(166, 39),
    "uselib": Call(134, None),
    "userfaultfd": Call(323, 282),
    "ustat": Call(136, None),
    "vhangup": Call(153, 58),
    "vmsplice": Call(278, 75),
}
