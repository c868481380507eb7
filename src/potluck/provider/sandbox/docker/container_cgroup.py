"""The control group that the engine created for a container."""

from contextlib import suppress
from pathlib import Path

from potluck.provider.sandbox.cgroup import Group
from potluck.provider.sandbox.hierarchy import CONTROLLERS, Hierarchy, controller_mounts

_LIMITS = {
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max",),
    "cpu": ("cpu.cfs_quota_us", "cpu.max"),
}


class ContainerGroup:
    """The group of one container; it vanishes with the container's last process."""

    def __init__(self, version: int, directories: dict[str, Path]) -> None:
        self._version = version
        self._directories = directories
        parents = {controller: path.parent for controller, path in directories.items()}
        name = next(iter(directories.values())).name
        self.counts = Group(Hierarchy(version, parents, ""), name)

    def mechanism(self, controller: str, limit: int) -> str | None:
        """The mechanism that enforces this limit, verified by reading the group's settings."""
        for name in _LIMITS[controller]:
            with suppress(OSError, KeyError):
                value = (self._directories[controller] / name).read_text().split()[0]
                return f"cgroup v{self._version}" if value == str(limit) else None
        return None


def find_container_group(pid: int) -> ContainerGroup | None:
    """By the pid of its init process; None if its groups are not visible from here."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    return parse_container_group(text, controller_mounts(Path("/proc/self/mountinfo").read_text()))


def parse_container_group(text: str, mounts: dict[str, Path]) -> ContainerGroup | None:
    """From the content of /proc/<pid>/cgroup, and the mount points of control groups."""
    lines = [line.split(":", 2)[1:] for line in text.splitlines()]
    directories = {
        name: mounts[name] / path.lstrip("/")
        for names, path in lines
        for name in names.split(",")
        if name in CONTROLLERS and name in mounts
    }
    if directories and all(path.is_dir() for path in directories.values()):
        return ContainerGroup(1, directories)
    unified = next((path for names, path in lines if not names), None)
    if unified is None or "cgroup2" not in mounts:
        return None
    directory = mounts["cgroup2"] / unified.lstrip("/")
    if not (directory / "memory.max").exists():
        return None
    return ContainerGroup(2, dict.fromkeys(CONTROLLERS, directory))
