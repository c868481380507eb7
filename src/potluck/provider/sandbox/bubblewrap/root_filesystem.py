"""The file system that a run sees, built up from nothing, as options of bwrap.

Inside are: /usr and its links, read-only; the interpreter; the CA bundle; the linker's cache; the
list of OpenCL drivers; a synthetic passwd, group, hosts, nsswitch.conf and resolv.conf; a private
/proc, without what drivers tell there of devices; a minimal /dev, with the nodes of the devices
that were granted; what was asked to be mounted. Writable are only

- /work, a size-limited tmpfs, with /tmp as a link to /work/.tmp, so that both share `disk_bytes`;
- /dev/shm, a tmpfs of at most `memory_bytes`, which counts as memory;
- mounts that say so, whose size is the concern of whoever mounts them.

There is no /home, /root, /var or /run, no socket, and nothing else of /etc.
"""

import os
import sys
from pathlib import Path, PurePosixPath

from msgspec import Struct

from potluck.provider.sandbox.driver import WORK, Confinement, Mount

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
HOSTNAME = "potluck"

_INSIDE = "/opt/python"
_SHOWN = ("bin", "lib", "lib64")
_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # Alpine
)
# A shared libpython is searched for where it was built, which does not exist inside, and then where
# the system has its own: the interpreter starts, with the wrong one.
_OWN_LIBRARY = """
import sys
for line in open("/proc/self/maps"):
    if "/libpython" in line and sys.base_prefix not in line:
        sys.exit("it took the library of another Python: " + line.split()[-1])
"""
_USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DRIVERS = Path("/proc/driver")
_LINKER_CACHE = Path("/etc/ld.so.cache")
_OPENCL = Path("/etc/OpenCL")  # says where the drivers are, which are below /usr
# Variables of every run that works in this system.
VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": WORK,
    "TMPDIR": "/tmp",  # noqa: S108
    "LANG": "C.UTF-8",
    "USER": "task",
    "LOGNAME": "task",
    "SSL_CERT_FILE": CA_BUNDLE,
}
TEXTS = {
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/resolv.conf": "# There is no network here.\n",
}


class Python(Struct, frozen=True):
    """The Python inside: the one that runs the provider, never its environment.

    Under /usr it is there anyway. Elsewhere (a home directory, /opt) its programs and libraries are
    mounted at /opt/python, so that neither the path nor a neighbour of it appears inside.
    """

    path: str
    mounts: tuple[Mount, ...] = ()
    environment: dict[str, str] = {}
    trial: str = "pass"  # source that fails inside where this way does not work


def find_pythons(prefix: Path) -> tuple[Python, ...]:
    """Ways to start the Python that is installed at `prefix`, the plainest first."""
    prefix = prefix.resolve()
    if prefix.is_relative_to("/usr"):
        return (Python(str(prefix / "bin" / _program(prefix))),)
    mounts = tuple(
        Mount(prefix / name, f"{_INSIDE}/{name}") for name in _SHOWN if (prefix / name).is_dir()
    )
    program = f"{_INSIDE}/bin/{_program(prefix)}"
    plain = Python(program, mounts, trial=_OWN_LIBRARY)
    shared = [mount.target for mount in mounts if any(mount.source.glob("libpython3*.so*"))]
    if not shared:
        return (plain,)
    # Only where it is needed, since every program inside is told to search there.
    needed = {"LD_LIBRARY_PATH": ":".join(shared)}
    return (plain, Python(program, mounts, needed, _OWN_LIBRARY))


def _program(prefix: Path) -> str:
    names = (f"python{sys.version_info.major}.{sys.version_info.minor}", "python3", "python")
    return next((name for name in names if (prefix / "bin" / name).exists()), "python3")


class InjectedFiles:
    """Options that put bytes into files, and the descriptors that bwrap reads them from."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.descriptors: list[int] = []

    def put(self, target: str, content: bytes, permissions: str) -> None:
        self.options += ["--perms", permissions, "--file", str(self.hold(content)), target]

    def hold(self, content: bytes) -> int:
        descriptor = os.memfd_create("potluck")
        self.descriptors.append(descriptor)
        # A memory file takes everything at once or fails.
        assert os.write(descriptor, content) == len(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


def base_mounts(python: Python) -> list[Mount]:
    """What every run is shown of this system, read-only."""
    directories = [Path("/") / name for name in _USR_LINKS]
    own = [
        Mount(each, str(each)) for each in directories if each.is_dir() and not each.is_symlink()
    ]
    found = [Mount(path, str(path)) for path in (_LINKER_CACHE, _OPENCL) if path.exists()]
    bundle = next((Path(path) for path in _CA_BUNDLES if Path(path).exists()), None)
    if bundle is not None:
        found.append(Mount(bundle.resolve(), CA_BUNDLE))
    return [Mount(Path("/usr"), "/usr"), *own, *python.mounts, *found]


def base_links() -> dict[str, str]:
    """/bin and the like where the host has them as links into /usr, and the bundle's other name."""
    paths = [Path("/") / name for name in _USR_LINKS]
    links = {str(path): str(path.readlink()) for path in paths if path.is_symlink()}
    return {**links, "/etc/ssl/cert.pem": CA_BUNDLE}


def base_options(python: Python) -> list[str]:
    """What is the same for every run of a driver, so that it is looked up once."""
    options = _directories("/etc/ssl/certs/*")
    for mount in base_mounts(python):
        options += mount_options(mount)
    for link, target in base_links().items():
        options += ["--symlink", target, link]
    options += ["--proc", "/proc", "--dev", "/dev"]
    if _DRIVERS.is_dir():
        options += ["--tmpfs", str(_DRIVERS)]
    return options


def write_run_options(inlay: InjectedFiles, confinement: Confinement, uid: int) -> None:
    """What belongs to one run: its sizes, its files, its mounts, its name in passwd."""
    for target, text in TEXTS.items():
        inlay.put(target, text.encode(), "0444")
    for target, text in account_files(uid).items():
        inlay.put(target, text.encode(), "0444")
    inlay.options += _tmpfs("/dev/shm", confinement.memory_bytes)  # noqa: S108
    inlay.options += _tmpfs(WORK, confinement.disk_bytes)
    inlay.options += ["--perms", "0777", "--dir", f"{WORK}/.tmp"]
    inlay.options += ["--symlink", f"{WORK}/.tmp", "/tmp"]  # noqa: S108
    for name, content in confinement.files.items():
        assert "/" not in name and name not in {"", ".", ".."}
        inlay.put(f"{WORK}/{name}", content, "0666")
    for mount in confinement.mounts:
        inlay.options += mount_options(mount)
    for node in confinement.device_nodes:
        inlay.options += [*_directories(node.target), "--dev-bind", str(node.source), node.target]
    if _DRIVERS.is_dir():
        inlay.options += ["--remount-ro", str(_DRIVERS)]
    inlay.options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK]


def account_files(uid: int) -> dict[str, str]:
    """What the run's user and group are called inside."""
    return {
        "/etc/passwd": f"task:x:{uid}:{uid}:task:{WORK}:/bin/sh\n",
        "/etc/group": f"task:x:{uid}:\n",
    }


def mount_options(mount: Mount) -> list[str]:
    bind = "--bind" if mount.writable else "--ro-bind"
    return [*_directories(mount.target), bind, str(mount.source), mount.target]


def _directories(target: str) -> list[str]:
    """The directories above it, open to all; made by the way, bwrap would shut them to the uid."""
    above = [str(parent) for parent in reversed(PurePosixPath(target).parents)][1:]
    return [word for path in above for word in ("--dir", path)]


def _tmpfs(target: str, size_bytes: int) -> list[str]:
    return ["--perms", "0777", "--size", str(size_bytes), "--tmpfs", target]
