"""The file system of a run, built from scratch, as options of bwrap.

It contains /usr and its links, read-only; the interpreter; the CA bundle; the linker cache; the
list of OpenCL drivers; a synthetic passwd, group, hosts, nsswitch.conf and resolv.conf; a private
/proc without /proc/driver and without what identifies the machine's boot; a minimal /dev with the
granted device nodes; and the requested mounts. Writable are only

- /work, which is limited to `disk_bytes`, with /tmp as a link to /work/.tmp, so that both share it;
- /dev/shm, a tmpfs of at most `memory_bytes`, which counts as memory;
- writable mounts, whose size the caller limits.

There is no /home, /root, /var or /run, no socket, and nothing else of /etc; directories of /usr in
which administrators keep configuration, sources or data are empty. So are those with Python
packages, unless a program of the node runs: code imports the standard library and what it declared.
"""

import os
import sys
from functools import cache
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

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
# The loader searches a shared libpython in its build location, which does not exist inside, and
# then in the system's directories: the interpreter would start with the wrong library.
_OWN_LIBRARY = """
import sys
for line in open("/proc/self/maps"):
    if "/libpython" in line and sys.base_prefix not in line:
        sys.exit("it loaded the library of another Python: " + line.split()[-1])
"""
_USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_DRIVERS = Path("/proc/driver")
# Of the machine's boot: its parameters, which may hold secrets, and its number.
MASKED_FILES = ("/proc/cmdline", "/proc/bootconfig", "/proc/sys/kernel/random/boot_id")
_HIDDEN = ("/usr/etc", "/usr/src", "/usr/local/etc", "/usr/local/src", "/usr/local/var")
# Debian has its own name for it.
_PACKAGES = ("lib*/python3*/site-packages", "lib*/python3*/dist-packages")
_LINKER_CACHE = Path("/etc/ld.so.cache")
_OPENCL = Path("/etc/OpenCL")  # lists the drivers, which are below /usr
# Default variables of every run outside of images.
VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": WORK,
    "PWD": WORK,  # as bwrap sets it
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
# With a raw network: the packet relay answers queries on loopback.
RAW_TEXTS = {
    **TEXTS,
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "/etc/resolv.conf": "nameserver 127.0.0.1\n",
}


class Python(Struct, frozen=True):
    """The Python inside: the provider's base interpreter, never its virtual environment.

    Under /usr it is visible anyway. Otherwise (a home directory, /opt) its programs and libraries
    are mounted at /opt/python, so that neither its path nor other files there are visible inside.
    """

    path: str
    mounts: tuple[Mount, ...] = ()
    environment: dict[str, str] = {}
    trial: str = "pass"  # source code that fails inside if this Python does not work
    packages: tuple[str, ...] = ()  # directories inside with packages of the node's own system


def find_pythons(prefix: Path) -> tuple[Python, ...]:
    """Ways to start the Python that is installed at `prefix`, the simplest first."""
    prefix = prefix.resolve()
    if prefix.is_relative_to("/usr") and not any(map(prefix.is_relative_to, hidden_directories())):
        program = str(prefix / "bin" / _program(prefix))
        return (Python(program, packages=tuple(_find_packages(Path("/usr")))),)
    mounts = tuple(
        Mount(prefix / name, f"{_INSIDE}/{name}") for name in _SHOWN if (prefix / name).is_dir()
    )
    program = f"{_INSIDE}/bin/{_program(prefix)}"
    own = (f"{_INSIDE}/{path.relative_to(prefix)}" for path in _package_directories(prefix))
    packages = (*_find_packages(Path("/usr")), *own)
    plain = Python(program, mounts, trial=_OWN_LIBRARY, packages=packages)
    shared = [mount.target for mount in mounts if any(mount.source.glob("libpython3*.so*"))]
    if not shared:
        return (plain,)
    # Only if needed, since it affects every program inside.
    needed = {"LD_LIBRARY_PATH": ":".join(shared)}
    return (plain, replace(plain, environment=needed))


def _find_packages(system: Path) -> list[str]:
    """Of all Pythons of the system."""
    found = {*_package_directories(system), *_package_directories(system / "local")}
    return sorted(str(path) for path in found if path.is_relative_to(system))


def _package_directories(prefix: Path) -> list[Path]:
    found = (path for pattern in _PACKAGES for path in prefix.glob(pattern) if path.is_dir())
    return sorted({path.resolve() for path in found})


def _program(prefix: Path) -> str:
    names = (f"python{sys.version_info.major}.{sys.version_info.minor}", "python3", "python")
    return next((name for name in names if (prefix / "bin" / name).exists()), "python3")


class InjectedFiles:
    """Options that create files inside, and the descriptors that bwrap reads them from."""

    def __init__(self) -> None:
        self.options: list[str] = []
        self.descriptors: list[int] = []

    def put(self, target: str, content: bytes, permissions: str) -> None:
        self.options += ["--perms", permissions, "--file", str(self.hold(content)), target]

    def hold(self, content: bytes) -> int:
        descriptor = os.memfd_create("potluck")
        self.descriptors.append(descriptor)
        # A memory file accepts everything at once or fails.
        assert os.write(descriptor, content) == len(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def close(self) -> None:
        while self.descriptors:
            os.close(self.descriptors.pop())


@cache
def hidden_directories() -> tuple[str, ...]:
    """Those that existed here at the first call, and lie below /usr themselves."""
    paths = {Path(name).resolve() for name in _HIDDEN if Path(name).is_dir()}
    return tuple(sorted(str(path) for path in paths if path.is_relative_to("/usr")))


def base_mounts(python: Python) -> list[Mount]:
    """The read-only part of this system that every run sees."""
    roots = [Path("/") / name for name in _USR_LINKS]
    own = [Mount(path, str(path)) for path in roots if path.is_dir() and not path.is_symlink()]
    configuration = [Mount(path, str(path)) for path in (_LINKER_CACHE, _OPENCL) if path.exists()]
    bundle = next((Path(path) for path in _CA_BUNDLES if Path(path).exists()), None)
    if bundle is not None:
        configuration.append(Mount(bundle.resolve(), CA_BUNDLE))
    return [Mount(Path("/usr"), "/usr"), *own, *python.mounts, *configuration]


def base_links() -> dict[str, str]:
    """The host's links such as /bin into /usr, and the CA bundle's other name."""
    paths = [Path("/") / name for name in _USR_LINKS]
    links = {str(path): str(path.readlink()) for path in paths if path.is_symlink()}
    return {**links, "/etc/ssl/cert.pem": CA_BUNDLE}


def base_options(python: Python) -> list[str]:
    """Options that all runs of a driver share."""
    options = _directories("/etc/ssl/certs/*")
    for mount in base_mounts(python):
        options += mount_options(mount)
    for link, target in base_links().items():
        options += ["--symlink", target, link]
    options += ["--proc", "/proc", "--dev", "/dev"]
    return options


def write_run_options(
    injected: InjectedFiles, python: Python, confinement: Confinement, work: Path | None, uid: int
) -> None:
    """Options of one run: its work directory (None: a tmpfs), files, mounts, and its user."""
    packages = () if confinement.shows_packages else python.packages
    empty = [*hidden_directories(), *packages, *([str(_DRIVERS)] if _DRIVERS.is_dir() else [])]
    for directory in empty:
        injected.options += ["--tmpfs", directory]
    texts = TEXTS if confinement.raw_network is None else RAW_TEXTS
    for target, text in texts.items():
        injected.put(target, text.encode(), "0444")
    for target, text in account_files(uid).items():
        injected.put(target, text.encode(), "0444")
    for target in filter(os.path.exists, MASKED_FILES):
        data = str(injected.hold(b""))
        injected.options += ["--perms", "0444", "--ro-bind-data", data, target]
    injected.options += _tmpfs("/dev/shm", confinement.memory_bytes)  # noqa: S108
    if work is None:
        injected.options += _tmpfs(WORK, confinement.disk_bytes)
    else:
        injected.options += ["--bind", str(work), WORK]
    injected.options += ["--perms", "0777", "--dir", f"{WORK}/.tmp"]
    injected.options += ["--symlink", f"{WORK}/.tmp", "/tmp"]  # noqa: S108
    for name, content in confinement.files.items():
        assert "/" not in name and name not in {"", ".", ".."}
        injected.put(f"{WORK}/{name}", content, "0666")
    for mount in confinement.all_mounts:
        injected.options += mount_options(mount)
    for node in confinement.device_nodes:
        injected.options += [
            *_directories(node.target),
            "--dev-bind",
            str(node.source),
            node.target,
        ]
    for directory in empty:
        injected.options += ["--remount-ro", directory]
    injected.options += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK]


def account_files(uid: int) -> dict[str, str]:
    """/etc/passwd and /etc/group with the run's user and group."""
    return {
        "/etc/passwd": f"task:x:{uid}:{uid}:task:{WORK}:/bin/sh\n",
        "/etc/group": f"task:x:{uid}:\n",
    }


def mount_options(mount: Mount) -> list[str]:
    bind = "--bind" if mount.writable else "--ro-bind"
    return [*_directories(mount.target), bind, str(mount.source), mount.target]


def _directories(target: str) -> list[str]:
    """Creates the parent directories explicitly; bwrap's own would be closed to the uid."""
    above = [str(parent) for parent in reversed(PurePosixPath(target).parents)][1:]
    return [word for path in above for word in ("--dir", path)]


def _tmpfs(target: str, size_bytes: int) -> list[str]:
    return ["--perms", "0777", "--size", str(size_bytes), "--tmpfs", target]
