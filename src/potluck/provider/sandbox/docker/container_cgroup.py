"""What the kernel counts for a container, in the control group that the engine has made for it."""

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
    """The group of one container, which is gone with its last process."""

    def __init__(self, version: int, directories: dict[str, Path]) -> None:
        self._version = version
        self._directories = directories
        parents = {controller: path.parent for controller, path in directories.items()}
        name = next(iter(directories.values())).name
        self.counts = Group(Hierarchy(version, parents, ""), name)

    def mechanism(self, controller: str, limit: int) -> str | None:
        """What holds it to this limit, found out by reading what is in force."""
        for name in _LIMITS[controller]:
            with suppress(OSError, KeyError):
                told = (self._directories[controller] / name).read_text().split()[0]
                return f"cgroup v{self._version}" if told == str(limit) else None
        return None


def find_container_group(pid: int) -> ContainerGroup | None:
    """By its first process; None where its groups can not be seen from here."""
    try:
        told = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    return parse_container_group(told, controller_mounts(Path("/proc/self/mountinfo").read_text()))


def parse_container_group(told: str, mounts: dict[str, Path]) -> ContainerGroup | None:
    """By what the kernel tells of a process, and where control groups are mounted."""
    lines = [line.split(":", 2)[1:] for line in told.splitlines()]
    found = {
        name: mounts[name] / path.lstrip("/")
        for names, path in lines
        for name in names.split(",")
        if name in CONTROLLERS and name in mounts
    }
    if found and all(path.is_dir() for path in found.values()):
        return ContainerGroup(1, found)
    unified = next((path for names, path in lines if not names), None)
    if unified is None or "cgroup2" not in mounts:
        return None
    directory = mounts["cgroup2"] / unified.lstrip("/")
    if not (directory / "memory.max").exists():
        return None
    return ContainerGroup(2, dict.fromkeys(CONTROLLERS, directory))
