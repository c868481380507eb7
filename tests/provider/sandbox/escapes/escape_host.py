"""The machine that attempts are made on: canaries in many places, and a process to be reached.

All of it has names of its own and is removed at the end. The services live in a network namespace
that is made here, where the tests run as root; nothing leads out of it.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from potluck.provider.sandbox.docker.work_directory import remove_run_directory
from tests.ordinary_user import NOBODY
from tests.provider.sandbox.conftest import REPOSITORY
from tests.provider.sandbox.escapes.inside.bait import Bait, Neighbour

SHOWN = "/shown"  # where the directory of that name is mounted inside
_INTERFACE = "potluck-bait"
_NEIGHBOURS = {"metadata": "169.254.169.254", "intranet": "10.66.77.2"}
_PLACES = {
    "root": "/root",
    "home": "/home",
    "tmp": "/tmp",
    "var": "/var",
    "run": "/run",
    "opt": "/opt",
    "srv": "/srv",
    "shm": "/dev/shm",
    "local-etc": "/usr/local/etc",
    "local-src": "/usr/local/src",
    "src": "/usr/src",
}
_BOOT = ("/proc/cmdline", "/proc/sys/kernel/random/boot_id")
_FUSE = os.makedev(10, 229)
_NETWORK = f"""
ip link set lo up
ip link add {_INTERFACE} type veth peer name potluck-end
ip address add {_NEIGHBOURS["metadata"]}/16 dev {_INTERFACE}
ip address add {_NEIGHBOURS["intranet"]}/24 dev {_INTERFACE}
ip link set {_INTERFACE} up
ip link set potluck-end up
exec "$@"
"""


class EscapeHost:
    """What is laid out, for one user of the host."""

    def __init__(self, directory: Path, uid: int, bait: Bait) -> None:
        self.directory = directory  # the user's own, with the provider's data in `state`
        self.uid = uid
        self.bait = bait

    @property
    def shown(self) -> Path:
        return self.directory / "shown"

    @property
    def bait_inside(self) -> Bait:
        return replace(self.bait, shown=SHOWN)

    def entering(self) -> list[str]:
        """Words before a command that put it into the namespace, as the user, with the canary in
        its environment."""
        environment = ["env", f"POTLUCK_TOKEN={self.bait.canary}"]
        if os.geteuid() != 0:
            return environment
        namespace = f"--net=/proc/{self.bait.neighbour.pid}/ns/net"
        return ["nsenter", namespace, "--", *_becoming(self.uid), *environment]


@contextmanager
def laid_out(as_root: bool) -> Iterator[EscapeHost]:
    uid = os.geteuid() if as_root or os.geteuid() != 0 else NOBODY
    canary = f"canary-{secrets.token_hex(12)}"
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="potluck-escape_host-"))
        stack.callback(_remove, directory)
        _make_directories(directory, uid)
        files = {name: _plant(stack, path, canary) for name, path in _PLACES.items()}
        files["data-directory"] = _plant(stack, str(directory / "state"), canary)
        files["source"] = str(Path(__file__).resolve())
        neighbour = stack.enter_context(_neighbour(canary, directory, uid))
        shown_directory = str(directory / "shown")
        yranac = canary[::-1]
        boot = {path: Path(path).read_text() for path in _BOOT}
        bait = Bait(yranac, files, neighbour, _INTERFACE, _NEIGHBOURS, shown_directory, boot)
        yield EscapeHost(directory, uid, bait)


def _make_directories(directory: Path, uid: int) -> None:
    directory.chmod(0o755)
    for name in ("state", "sockets", "work", "shown"):
        (directory / name).mkdir(mode=0o755)
        os.chown(directory / name, uid, uid)
    program = directory / "shown" / "whoami"
    shutil.copyfile("/usr/bin/id", program)
    program.chmod(0o4755)
    if os.geteuid() == 0:
        node = directory / "shown" / "node"
        os.mknod(node, 0o20666, _FUSE)
        node.chmod(0o666)


def _remove(directory: Path) -> None:
    """Of a run that was killed with its host something is mounted."""
    for leftover in directory.glob("state/docker/*"):
        remove_run_directory(leftover)
    shutil.rmtree(directory, ignore_errors=True)


def _plant(stack: ExitStack, place: str, canary: str) -> str:
    """For everybody to read; a place that this user may not write to stays without."""
    path = Path(place) / f"potluck-{secrets.token_hex(12)}"
    with suppress(OSError):
        path.write_text(canary)
        path.chmod(0o644)
        stack.callback(path.unlink, missing_ok=True)
    return str(path)


@contextmanager
def _neighbour(canary: str, directory: Path, uid: int) -> Iterator[Neighbour]:
    prefix: list[str] = []
    if os.geteuid() == 0:
        prefix = ["unshare", "--net", "sh", "-ec", _NETWORK, "sh", *_becoming(uid)]
    module = [sys.executable, "-m", "tests.provider.sandbox.escapes.neighbour", canary]
    process = subprocess.Popen(
        [*prefix, *module, str(directory / "sockets")],
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "POTLUCK_TOKEN": canary},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield Neighbour(**json.loads(process.stdout.readline()))
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=5)
        process.kill()
        process.communicate()


def _becoming(uid: int) -> Sequence[str]:
    if uid == 0:
        return []
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
