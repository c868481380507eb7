"""Device nodes: those that are there, those that could be made, and terminals."""

import errno
import fcntl
import os
import stat
from functools import partial
from pathlib import Path

from tests.provider.sandbox.escapes.inside.attempt import add, probe
from tests.provider.sandbox.escapes.inside.bait import Bait

_FORBIDDEN = {
    "mem": "the memory of the machine",
    "port": "its ports",
    "kmsg": "the kernel's log",
    "fuse": "file systems of its own",
    "net/tun": "networks of its own",
    "kvm": "machines within the machine",
    "loop-control": "disks made of files",
    "vsock": "the machine that this one runs on",
    "tty0": "the console",
    "userfaultfd": "the faults of pages",
}
# What every sandbox has, and nobody is harmed by.
_PLAIN = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
_TYPE_IN, _CONSOLE_CALL = 0x5412, 0x541C


def _open(name: str, bait: Bait) -> str | None:
    os.close(os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK))
    return "opened"


for _name, _what in _FORBIDDEN.items():
    add(f"device-{_name.replace('/', '-')}", f"open /dev/{_name}: {_what}", partial(_open, _name))


@probe("disks", "open any disk of the machine")
def disks(bait: Bait) -> str | None:
    nodes = [path for path in Path("/dev").rglob("*") if path.is_block_device()]
    return " ".join(map(str, nodes))


@probe("other-devices", "find any node beyond the plain ones")
def other_devices(bait: Bait) -> str | None:
    links = {path for path in Path("/dev").rglob("*") if path.is_symlink()}  # the three streams
    nodes = [path for path in {*Path("/dev").rglob("*")} - links if path.is_char_device()]
    foreign = [path for path in nodes if path.name not in _PLAIN and path.parent.name != "pts"]
    return " ".join(map(str, foreign))


def _make(mode: int, number: int, bait: Bait) -> str | None:
    os.mknod(f"a-node-{number}", mode | 0o666, number)
    return "made"


add("make-memory-node", "make a node of the memory", partial(_make, stat.S_IFCHR, os.makedev(1, 1)))
add("make-disk-node", "make a node of the disk", partial(_make, stat.S_IFBLK, os.makedev(254, 0)))


@probe("shown-node", "open a node that lies in a directory shown inside")
def shown_node(bait: Bait) -> str | None:
    os.close(os.open(f"{bait.shown}/node", os.O_RDWR | os.O_NONBLOCK))
    return "opened"


def _terminal(request: int, bait: Bait) -> str | None:
    """On a terminal of its own, where it is not missing."""
    os.setsid()
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x540E, 0)  # its own controlling terminal
    try:
        fcntl.ioctl(terminal, request, b"\x0b")
    except OSError as error:
        if error.errno == errno.EIO:  # the kernel's own switch, behind any filter
            return "reached the terminal's driver"
        raise
    return "typed"


add("type-into-terminal", "type into the terminal as if a person did", partial(_terminal, _TYPE_IN))
add("console-call", "paste into the console", partial(_terminal, _CONSOLE_CALL))


@probe("providers-terminal", "open the terminal that the provider was started from")
def providers_terminal(bait: Bait) -> str | None:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError as error:
        if error.errno == errno.EIO:  # what gVisor says where there is none
            return None
        raise
    return "opened"
