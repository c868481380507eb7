"""The engine's container configuration for one run: image, mounts, devices and all limits.

A container has no network and no capabilities, no program gains privileges when executed, the root
is read-only, and the user owns nothing else. Host details that the engine would show by default are
replaced: /sys by an empty directory, hosts and resolv.conf by our own.
"""

import resource
from collections.abc import Mapping

from msgspec import Struct

from potluck.provider.sandbox.bubblewrap.root_filesystem import (
    HOSTNAME,
    MASKED_FILES,
    TEXTS,
    account_files,
    hidden_directories,
)
from potluck.provider.sandbox.docker import nvidia
from potluck.provider.sandbox.docker.engine import Image
from potluck.provider.sandbox.docker.root import InitCommand
from potluck.provider.sandbox.docker.work_directory import ContainerWork
from potluck.provider.sandbox.driver import WORK, Confinement, Mount
from potluck.provider.sandbox.identity import groups_of
from potluck.provider.sandbox.work_disk import CACHE_BYTES, largest_file_bytes

_OPEN_FILES = 65_536
_OUT_OF_MEMORY_SCORE = 500
_PERIOD_MICROSECONDS = 100_000
_INIT_PROCESSES = 1
# The rlimit is above the control group's limit, so that the latter is exceeded first.
_PROCESS_SLACK = 8
# Docker's own list, what drivers reveal about devices, and what identifies the machine's boot.
MASKED_PATHS = (
    *MASKED_FILES,
    *("/proc/acpi", "/proc/asound", "/proc/driver", "/proc/interrupts", "/proc/kcore"),
    *("/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/proc/timer_list", "/proc/timer_stats"),
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# Runtimes mount nothing below /proc; system directories of an image are not covered by mounts.
_NOT_MOUNTED = ("/proc/",)
_IMAGE_DIRECTORIES = ("/usr/", "/lib", "/opt/", "/etc/", *_NOT_MOUNTED)


class RuntimeOverhead(Struct, frozen=True):
    """Resources of the runtime itself that count for the container."""

    memory_bytes: int = 0
    processes: int = 0


class ContainerDefaults(Struct, frozen=True):
    """Settings that all runs of a driver share."""

    label: str
    security: tuple[str, ...]
    runtime: str | None = None
    user_namespace: str = ""
    overhead: RuntimeOverhead = RuntimeOverhead()


class ContainerConfig(Struct, frozen=True):
    """The configuration of one container."""

    confinement: Confinement
    defaults: ContainerDefaults
    init: InitCommand
    image: Image
    user: int
    group: int
    work: ContainerWork

    @property
    def memory_bytes(self) -> int:
        """Includes the work directory if that is a tmpfs, which the kernel counts as memory, else
        a little for cached pages of files."""
        limit = self.confinement
        disk_bytes = limit.disk_bytes if self.work.is_in_memory else CACHE_BYTES
        return limit.memory_bytes + disk_bytes + self.defaults.overhead.memory_bytes

    @property
    def processes(self) -> int:
        limit = self.confinement
        return (
            limit.processes
            + limit.own_processes
            + _INIT_PROCESSES
            + self.defaults.overhead.processes
        )

    @property
    def quota_microseconds(self) -> int:
        return self.confinement.cores * _PERIOD_MICROSECONDS

    def to_json(self) -> dict[str, object]:
        """The body of the engine's create request."""
        program, *arguments = self.init.words
        config = self.image.config
        steering = nvidia.blank_steering_variables((config and config.env) or ())
        own = [f"{name}={value}" for name, value in self.init.environment.items()]
        label, _, value = self.defaults.label.partition("=")
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
            # When we die or detach, stdin is closed, and everything ends.
            **dict.fromkeys(("OpenStdin", "StdinOnce"), True),
            **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
            "HostConfig": self._host_config(),
        }

    def _host_config(self) -> dict[str, object]:
        runtime = {"Runtime": self.defaults.runtime} if self.defaults.runtime else {}
        return {
            **runtime,
            "NetworkMode": "none",
            "IpcMode": "private",
            "UsernsMode": self.defaults.user_namespace,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": list(self.defaults.security),
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
            "MaskedPaths": list(MASKED_PATHS),
            "ReadonlyPaths": list(_READ_ONLY),
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
            **self._devices(),
        }

    def _ulimits(self) -> list[dict[str, object]]:
        """Never above our own limits, which a rootless engine cannot raise."""
        _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = _OPEN_FILES if most_files < 0 else min(_OPEN_FILES, most_files)
        limits = {"core": 0, "nofile": files, "nproc": self.processes + _PROCESS_SLACK}
        if self.work.is_watched:
            limits["fsize"] = largest_file_bytes(self.confinement)
        return [{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()]

    def _mounts(self) -> list[Mount]:
        work = self.work
        excluded = _IMAGE_DIRECTORIES if self.confinement.image else _NOT_MOUNTED
        mounts = self.confinement.all_mounts
        return [
            *self.init.mounts,
            *self._hidden(),
            *self._texts(),
            Mount(work.path, WORK, writable=True),
            Mount(work.temporary, "/tmp", writable=True),  # noqa: S108
            *self._volumes(),
            *(mount for mount in mounts if not mount.target.startswith(excluded)),
        ]

    def _hidden(self) -> list[Mount]:
        """Covers directories of this machine; an image has its own."""
        if self.confinement.image is not None:
            return []
        packages = () if self.confinement.shows_packages else self.init.packages
        paths = [*hidden_directories(), *packages]
        return [Mount(self.work.empty_directory(), path) for path in paths]

    def _texts(self) -> list[Mount]:
        texts = {**TEXTS, **account_files(self.user)}
        return [
            Mount(self.work.aside(target.rpartition("/")[2], text), target)
            for target, text in texts.items()
        ]

    def _volumes(self) -> list[Mount]:
        """Puts the image's volumes below the work directory; the engine's would have no limit."""
        config = self.image.config
        volumes = sorted((config and config.volumes) or ())
        reserved = (
            *(WORK, "/tmp", "/sys", "/proc", "/dev"),  # noqa: S108
            *(mount.target for mount in self.confinement.mounts),  # of the task's own data sets
        )
        return [
            Mount(self.work.subdirectory(f".volumes/{number}"), target, writable=True)
            for number, target in enumerate(volumes)
            if not f"{target}/".startswith(tuple(f"{path}/" for path in reserved))
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
    mount.source.stat()  # raises; some engines would create a missing source
    return {
        "Type": "bind",
        "Source": str(mount.source),
        "Target": mount.target,
        "ReadOnly": not mount.writable,
    }
