"""One run as the engine is told of it: what it stands on, what it sees, and all the walls.

There is no network and no capability, nothing gains a right by being executed, the root can not be
written to, and the user is nobody's. What the engine would show of the host by itself is replaced:
/sys by an empty directory, the names of hosts and servers by our own.
"""

import resource
from collections.abc import Mapping

from msgspec import Struct

from potluck.provider.sandbox.bubblewrap.root_filesystem import HOSTNAME, TEXTS, account_files
from potluck.provider.sandbox.docker import nvidia
from potluck.provider.sandbox.docker.engine import Image
from potluck.provider.sandbox.docker.root import InitCommand
from potluck.provider.sandbox.docker.work_directory import Work
from potluck.provider.sandbox.driver import WORK, Confinement, Mount
from potluck.provider.sandbox.identity import groups_of

_OPEN_FILES = 65_536
_OUT_OF_MEMORY_SCORE = 500
_PERIOD_MICROSECONDS = 100_000
_FIRST = 1  # the first process is ours
# Behind the kernel's other wall, so that that one is touched first.
_PROCESS_SLACK = 8
# Docker's own list, and what drivers tell of devices.
_MASKED = (
    *("/proc/acpi", "/proc/asound", "/proc/driver", "/proc/interrupts", "/proc/kcore"),
    *("/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/proc/timer_list", "/proc/timer_stats"),
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# A runtime mounts nothing below /proc; what lies in an image's own places is the image's.
_NOT_MOUNTED = ("/proc/",)
_PLACES_OF_IMAGE = ("/usr/", "/lib", "/opt/", "/etc/", *_NOT_MOUNTED)


class RuntimeOverhead(Struct, frozen=True):
    """What a runtime itself takes of what is counted for a container."""

    memory_bytes: int = 0
    processes: int = 0


class ContainerDefaults(Struct, frozen=True):
    """What is the same for every run of a driver."""

    label: str
    security: tuple[str, ...]
    runtime: str | None = None
    user_namespace: str = ""
    footprint: RuntimeOverhead = RuntimeOverhead()


class ContainerConfig(Struct, frozen=True):
    """One container to be."""

    confinement: Confinement
    hull: ContainerDefaults
    footing: InitCommand
    image: Image
    user: int
    group: int
    work: Work

    @property
    def memory_bytes(self) -> int:
        """The kernel counts the work directory as memory too, where it lies there."""
        limit = self.confinement
        disk_bytes = limit.disk_bytes if self.work.is_file_system else 0
        return limit.memory_bytes + disk_bytes + self.hull.footprint.memory_bytes

    @property
    def processes(self) -> int:
        limit = self.confinement
        return limit.processes + limit.own_processes + _FIRST + self.hull.footprint.processes

    @property
    def quota_microseconds(self) -> int:
        return self.confinement.cores * _PERIOD_MICROSECONDS

    def told(self) -> dict[str, object]:
        program, *arguments = self.footing.words
        config = self.image.config
        steering = nvidia.blank_steering_variables((config and config.env) or ())
        own = [f"{name}={value}" for name, value in self.footing.environment.items()]
        label, _, value = self.hull.label.partition("=")
        return {
            "Image": self.image.id,
            "Entrypoint": [program],
            "Cmd": arguments,
            "Env": [*steering, *own],
            "User": f"{self.user}:{self.group}",
            "WorkingDir": WORK,
            "Hostname": HOSTNAME,
            "Labels": {label: value, "potluck.run": self.confinement.name},
            "Healthcheck": {"Test": ["NONE"]},
            "Tty": False,
            # Once we are gone, or let go, stdin is closed, and with it everything ends.
            **dict.fromkeys(("OpenStdin", "StdinOnce"), True),
            **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
            "HostConfig": self._host_config(),
        }

    def _host_config(self) -> dict[str, object]:
        runtime = {"Runtime": self.hull.runtime} if self.hull.runtime else {}
        return {
            **runtime,
            "NetworkMode": "none",
            "IpcMode": "private",
            "UsernsMode": self.hull.user_namespace,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": list(self.hull.security),
            "Memory": self.memory_bytes,
            "MemorySwap": self.memory_bytes,
            "PidsLimit": self.processes,
            "CpuPeriod": _PERIOD_MICROSECONDS,
            "CpuQuota": self.quota_microseconds,
            "OomScoreAdj": _OUT_OF_MEMORY_SCORE,
            "Ulimits": self._ulimits(),
            "ShmSize": self.confinement.memory_bytes,
            "Tmpfs": {"/sys": "size=64k,mode=0555"},
            "Mounts": [_bind(mount) for mount in self._mounts()],
            "MaskedPaths": list(_MASKED),
            "ReadonlyPaths": list(_READ_ONLY),
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
            **self._devices(),
        }

    def _ulimits(self) -> list[dict[str, object]]:
        """Never above our own: an engine without that right can not raise them."""
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = _OPEN_FILES if most_files < 0 else min(_OPEN_FILES, most_files)
        limits = {"core": 0, "nofile": files, "nproc": self.processes + _PROCESS_SLACK}
        return [{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()]

    def _mounts(self) -> list[Mount]:
        work = self.work
        foreign = _PLACES_OF_IMAGE if self.confinement.image else _NOT_MOUNTED
        asked = [mount for mount in self.confinement.mounts if not mount.target.startswith(foreign)]
        return [
            *self.footing.mounts,
            *self._texts(),
            Mount(work.path, WORK, writable=True),
            Mount(work.temporary, "/tmp", writable=True),  # noqa: S108
            *self._volumes(),
            *asked,
        ]

    def _texts(self) -> list[Mount]:
        texts = {**TEXTS, **account_files(self.user)}
        return [
            Mount(self.work.aside(target.rpartition("/")[2], text), target)
            for target, text in texts.items()
        ]

    def _volumes(self) -> list[Mount]:
        """What an image wants to write to would else be a directory without a limit."""
        config = self.image.config
        wanted = sorted((config and config.volumes) or ())
        reserved = (WORK, "/tmp", "/sys", "/proc", "/dev")  # noqa: S108
        return [
            Mount(self.work.subdirectory(f".volumes/{number}"), target, writable=True)
            for number, target in enumerate(wanted)
            if not f"{target}/".startswith(tuple(f"{place}/" for place in reserved))
        ]

    def _devices(self) -> Mapping[str, object]:
        nodes = self.confinement.device_nodes
        if self.confinement.image is not None and nvidia.wants_cards(nodes):
            visible = self.confinement.environment["NVIDIA_VISIBLE_DEVICES"]
            return {"DeviceRequests": [nvidia.device_request(visible)]}
        return {
            "Devices": [
                {
                    "PathOnHost": str(node.source),
                    "PathInContainer": node.target,
                    "CgroupPermissions": "rw",
                }
                for node in nodes
            ],
            "GroupAdd": [str(group) for group in groups_of(nodes)],
        }


def _bind(mount: Mount) -> dict[str, object]:
    mount.source.stat()  # some engines make what is not there
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": mount.target,
        "ReadOnly": not mount.writable,
    }
