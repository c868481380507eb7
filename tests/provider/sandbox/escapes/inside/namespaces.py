"""Namespaces and mounts: a root of one's own would bring capabilities with it."""

import os
from functools import partial
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait
from tests.provider.sandbox.escapes.inside.calls import call, passes, room

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK = 0x10000000, 0x00020000, 0x40000000
_KINDS = {
    "user": _NEW_USER,
    "mount": _NEW_USER | _NEW_MOUNTS,
    "network": _NEW_USER | _NEW_NETWORK,
    "process": _NEW_USER | 0x20000000,
    "time": _NEW_USER | 0x80,
}
_BIND, _MOVE, _REMOUNT, _READ_ONLY = 0x1000, 0x2000, 0x20, 1
_AT_CURRENT, _DETACH, _CLONE_TREE = -100, 2, 1
_HERE = b"a-mount"


def _unshare(flags: int, bait: Bait) -> str | None:
    call("unshare", flags)
    return f"made it, with the capabilities {_capabilities()}"


def _capabilities() -> str:
    text = Path("/proc/self/status").read_text()
    return next(line.split()[1] for line in text.splitlines() if line.startswith("CapEff"))


for _kind, _flags in _KINDS.items():
    add(f"{_kind}-namespace", f"make a {_kind} namespace", partial(_unshare, _flags))


@probe("clone-namespace", "make a process in a user namespace of its own")
def clone_namespace(bait: Bait) -> str | None:
    if call("clone", _NEW_USER | 17, 0, 0, 0, 0) == 0:
        os._exit(0)
    return "made one"


@probe("nested-mount", "mount something, as root of a user namespace of its own")
def nested_mount(bait: Bait) -> str | None:
    call("unshare", _NEW_USER | _NEW_MOUNTS)
    Path("nested").mkdir()
    call("mount", b"none", b"nested", b"tmpfs", 0, None)
    return "mounted"


@probe("nested-packets", "listen to packets, as root of a user namespace of its own")
def nested_packets(bait: Bait) -> str | None:
    call("unshare", _NEW_USER | _NEW_NETWORK)
    call("socket", 17, 3, 0)
    return "listens"


@probe("enter-namespace", "enter the namespaces of another process")
def enter_namespace(bait: Bait) -> str | None:
    return passes("setns", -1, 0)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int, bait: Bait) -> str | None:
    Path(_HERE.decode()).mkdir(exist_ok=True)
    return passes("mount", source, target, kind, flags, None)


_MOUNTS = {
    "mount-memory": ("mount a tmpfs", (b"none", _HERE, b"tmpfs", 0)),
    "mount-proc": ("mount another /proc", (b"proc", _HERE, b"proc", 0)),
    "mount-groups": ("mount control groups, for release_agent", (b"x", _HERE, b"cgroup", 0)),
    "mount-disk": ("mount the host's disk", (b"/dev/vda", _HERE, b"ext4", _READ_ONLY)),
    "bind": ("show / at another place", (b"/", _HERE, None, _BIND)),
    "make-writable": ("make /usr writable", (b"", b"/usr", None, _REMOUNT | _BIND)),
    "move-mount": ("move a mount away", (b"/dev/shm", _HERE, None, _MOVE)),
    "overlay": ("lay a file system over /usr", (b"x", _HERE, b"overlay", 0)),
}
for _name, (_tries, _words) in _MOUNTS.items():
    add(_name, _tries, partial(_mount, *_words))


@probe("unmount", "take away what hides something")
def unmount(bait: Bait) -> str | None:
    return passes("umount2", b"/proc/driver", _DETACH)


@probe("pivot", "change the root of the mounts")
def pivot(bait: Bait) -> str | None:
    return passes("pivot_root", b".", b".")


@probe("chroot", "change its own root, and climb out of it")
def chroot(bait: Bait) -> str | None:
    return passes("chroot", b".")


@probe("new-file-system", "make a mount by the newer calls")
def new_file_system(bait: Bait) -> str | None:
    return passes("fsopen", b"tmpfs", 0)


@probe("copy-mounts", "copy all mounts by the newer calls")
def copy_mounts(bait: Bait) -> str | None:
    return passes("open_tree", _AT_CURRENT, b"/", _CLONE_TREE)


@probe("change-mount", "make a mount writable by the newer calls")
def change_mount(bait: Bait) -> str | None:
    return passes("mount_setattr", _AT_CURRENT, b"/usr", 0, room(32), 32)
