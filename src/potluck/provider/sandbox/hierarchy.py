"""Where on this machine control groups can be made, found out by trying.

Version 2 is used where a subtree is ours: the root of the mount for root, else the group that this
process runs in (`systemd-run --user --scope -p Delegate=yes` gives such a one). Version 1 is used
as root. The names of all groups of one node begin the same, so that what an earlier life left
behind is found without touching anybody else's.
"""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

# What we would like to limit; each alone is worth having.
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")
# In a delegated subtree processes may live in leaves only, so this one moves into a leaf.
_OWN_LEAF = "potluck-provider"


class Hierarchy(Struct, frozen=True):
    """The directory in which groups are made, for each controller, and how their names begin."""

    version: int
    parents: dict[str, Path]
    prefix: str

    @property
    def name(self) -> str:
        return f"cgroup v{self.version}"

    def mechanism(self, controller: str) -> str | None:
        return self.name if controller in self.parents else None

    def leftovers(self) -> set[str]:
        """Names of groups of this node that exist now, without the prefix."""
        return {
            entry.name.removeprefix(self.prefix)
            for parent in self.parents.values()
            for entry in parent.glob(f"{self.prefix}*")
        }


def find_hierarchy(prefix: str) -> Hierarchy | None:
    """The best that there is, or None."""
    mounts = controller_mounts(Path("/proc/self/mountinfo").read_text())
    return _version_2(mounts, prefix) or _version_1(mounts, prefix)


def _version_2(mounts: dict[str, Path], prefix: str) -> Hierarchy | None:
    if "cgroup2" not in mounts:
        return None
    for parent in _candidates(mounts["cgroup2"]):
        with suppress(OSError):
            enabled = enable_controllers(parent)
            if "memory" in enabled and "pids" in enabled and _can_make_group(parent, prefix):
                return Hierarchy(2, dict.fromkeys(enabled, parent), prefix)
    return None


def enable_controllers(parent: Path) -> list[str]:
    """Passes what we want down to the groups made in `parent`; the controllers that took it."""
    try:
        _pass_controllers_down(parent)
    except OSError:
        _move_into_leaf(parent)
        _pass_controllers_down(parent)
    enabled = (parent / "cgroup.subtree_control").read_text().split()
    return [name for name in CONTROLLERS if name in enabled]


def _pass_controllers_down(directory: Path) -> None:
    offered = (directory / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in CONTROLLERS if name in offered)
    (directory / "cgroup.subtree_control").write_text(wanted)


def _move_into_leaf(parent: Path) -> None:
    """Only when nobody else lives there: a group that we share, with a shell perhaps, is not ours
    to change."""
    own = str(os.getpid())
    if (parent / "cgroup.procs").read_text().split() != [own]:
        raise PermissionError(f"{parent} has other members")
    leaf = parent / _OWN_LEAF
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(own)


def _candidates(mount: Path) -> list[Path]:
    own = _own_group(Path("/proc/self/cgroup").read_text())
    group = mount / own.lstrip("/")
    delegated = group.parent if group.name == _OWN_LEAF else group
    return [mount, delegated] if os.geteuid() == 0 else [delegated]


def _own_group(text: str) -> str:
    """The version 2 line reads `0::/path`."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::")), "/")


def _version_1(mounts: dict[str, Path], prefix: str) -> Hierarchy | None:
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
    """Version 1 controllers by name, and version 2 as "cgroup2", with where they are mounted."""
    found: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        place, _, kind = line.partition(" - ")
        mount = Path(place.split()[4])
        file_system, _, options = kind.split(maxsplit=2)
        if file_system == "cgroup2":
            found["cgroup2"] = mount
        elif file_system == "cgroup":
            found |= {name: mount for name in options.split(",") if name in CONTROLLERS}
    return found
