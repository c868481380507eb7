"""Finds where this machine lets us create control groups, by trying.

Version 2 is used where we own a subtree: the root of the mount as root, else the group of this
process (`systemd-run --user --scope -p Delegate=yes` delegates one). Version 1 is used as root.
All groups of one node share a name prefix, so leftovers of an earlier process are found without
touching other programs' groups.
"""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

# Controllers we use where they exist; none of them is required.
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
# In a delegated subtree only leaves may contain processes, so this process moves into a leaf.
_OWN_LEAF = "potluck-provider"


class Hierarchy(Struct, frozen=True):
    """The parent directory of our groups for each controller, and their name prefix."""

    version: int
    parents: dict[str, Path]
    prefix: str

    @property
    def name(self) -> str:
        return f"cgroup v{self.version}"

    def mechanism(self, controller: str) -> str | None:
        return self.name if controller in self.parents else None

    def leftovers(self) -> set[str]:
        """Names, without the prefix, of this node's existing groups."""
        return {
            entry.name.removeprefix(self.prefix)
            for parent in self.parents.values()
            for entry in parent.glob(f"{self.prefix}*")
        }


def find_hierarchy(prefix: str) -> Hierarchy | None:
    """Returns version 2 if usable, else version 1, else None."""
    mounts = controller_mounts(Path("/proc/self/mountinfo").read_text())
    return _find_version_2(mounts, prefix) or _find_version_1(mounts, prefix)


def _find_version_2(mounts: dict[str, Path], prefix: str) -> Hierarchy | None:
    if "cgroup2" not in mounts:
        return None
    for parent in _candidate_parents(mounts["cgroup2"]):
        with suppress(OSError):
            enabled = enable_controllers(parent)
            if "memory" in enabled and "pids" in enabled and _can_make_group(parent, prefix):
                return Hierarchy(2, dict.fromkeys(enabled, parent), prefix)
    return None


def enable_controllers(parent: Path) -> list[str]:
    """Enables our controllers for groups created in `parent`; returns those that are enabled."""
    try:
        _pass_controllers_down(parent)
    except OSError:
        _move_into_leaf(parent)
        _pass_controllers_down(parent)
    enabled = (parent / "cgroup.subtree_control").read_text().split()
    return [name for name in CONTROLLERS if name in enabled]


def _pass_controllers_down(directory: Path) -> None:
    available = (directory / "cgroup.controllers").read_text().split()
    enabled = " ".join(f"+{name}" for name in CONTROLLERS if name in available)
    (directory / "cgroup.subtree_control").write_text(enabled)


def _move_into_leaf(parent: Path) -> None:
    """Raises PermissionError if the group has other members: then it is not ours to change."""
    own = str(os.getpid())
    if (parent / "cgroup.procs").read_text().split() != [own]:
        raise PermissionError(f"{parent} has other members")
    leaf = parent / _OWN_LEAF
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(own)


def _candidate_parents(mount: Path) -> list[Path]:
    own = _parse_own_group(Path("/proc/self/cgroup").read_text())
    group = mount / own.lstrip("/")
    delegated = group.parent if group.name == _OWN_LEAF else group
    return [mount, delegated] if os.geteuid() == 0 else [delegated]


def _parse_own_group(text: str) -> str:
    """Parses /proc/self/cgroup; the version 2 line reads `0::/path`."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), "/")


def _find_version_1(mounts: dict[str, Path], prefix: str) -> Hierarchy | None:
    parents = {
        controller: mounts[controller]
        for controller in CONTROLLERS
        if controller in mounts and _can_make_group(mounts[controller], prefix)
    }
    return Hierarchy(1, parents, prefix) if parents else None


def _can_make_group(parent: Path, prefix: str) -> bool:
    trial = parent / f"{prefix}trial-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return False
    trial.rmdir()
    return True


def controller_mounts(mountinfo: str) -> dict[str, Path]:
    """Mount points of version 1 controllers by name, and of version 2 as "cgroup2"."""
    mounts: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4])
        file_system, _, options = after.split(maxsplit=2)
        if file_system == "cgroup2":
            mounts["cgroup2"] = mount
        elif file_system == "cgroup":
            mounts |= {name: mount for name in options.split(",") if name in CONTROLLERS}
    return mounts
