"""Device nodes inside: those that were granted can be used, and there are no others."""

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.provider.sandbox.driver import Mount
from tests.provider.sandbox.conftest import Host, hosting

# As bwrap makes them for every run.
PLAIN = [
    "console",
    "core",
    "fd",
    "full",
    "null",
    "ptmx",
    "pts",
    "random",
    "shm",
    "stderr",
    "stdin",
    "stdout",
    "tty",
    "urandom",
    "zero",
]
NODES = (
    Mount(Path("/dev/zero"), "/dev/nvidia0"),
    Mount(Path("/dev/full"), "/dev/nvidia-caps/nvidia-cap1"),
)
LOOKS_AROUND = """
import os
print(sorted(set(os.listdir('/dev')) - {'console'}), os.listdir('/dev/nvidia-caps'))
with open('/dev/nvidia0', 'r+b', buffering=0) as node:
    print(node.read(4), node.write(b'through'))
try:
    open('/dev/nvidia-caps/nvidia-cap1', 'wb', buffering=0).write(b'x')
except OSError as error:
    print(error.strerror)
for path in ('/dev/nvidia1', '/work/own'):
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except OSError as error:
        print(path, error.strerror)
"""


def test_granted_nodes_work_and_others_are_absent(host: Host) -> None:
    result = host.python(LOOKS_AROUND, device_nodes=NODES)
    expected_names = sorted([*PLAIN, "nvidia0", "nvidia-caps"])
    expected_names.remove("console")
    assert result.stdout.decode().splitlines() == [
        f"{expected_names} ['nvidia-cap1']",
        r"b'\x00\x00\x00\x00' 7",
        "No space left on device",
        "/dev/nvidia1 Read-only file system",
        "/work/own Operation not permitted",
    ], result.stderr


def test_a_run_without_devices_has_no_nodes_of_them(host: Host) -> None:
    result = host.python("import os; print(sorted(set(os.listdir('/dev')) - {'console'}))")
    assert result.stdout.decode().strip() == str([name for name in PLAIN if name != "console"])


def test_a_node_that_is_gone_fails_the_sandbox_and_not_the_task(host: Host) -> None:
    result = host.run(device_nodes=(Mount(Path("/dev/nvidia77"), "/dev/nvidia77"),))
    assert result.ended is not None
    assert result.ended.reason == "sandbox_failed"
    assert "/dev/nvidia77" in result.ended.detail


def test_driver_entries_in_proc_are_limited_to_granted_devices(host: Host) -> None:
    source = (
        "import os\nfor place, _, names in os.walk('/proc/driver'): print(place, names)\n"
        "open('/proc/driver/more', 'w')"
    )
    proc_mount = Mount(Path("/usr/bin/env"), "/proc/driver/nvidia/version")
    result = host.python(source, mounts=(proc_mount,))
    assert result.stdout == b"/proc/driver []\n/proc/driver/nvidia ['version']\n"
    assert b"Read-only file system" in result.stderr


@pytest.fixture
def closed_node() -> Iterator[Path]:
    """A node like a render node: for a group, which is nobody's on this machine."""
    if os.geteuid() != 0:
        pytest.skip("only root makes device nodes")
    with tempfile.TemporaryDirectory(prefix="potluck-node-") as directory:
        Path(directory).chmod(0o755)
        node = Path(directory) / "renderD128"
        os.mknod(node, stat.S_IFCHR | 0o660, os.makedev(1, 5))
        os.chown(node, 0, 54_321)
        node.chmod(0o660)
        yield node


def test_a_run_of_root_is_in_the_group_of_its_node_and_in_no_other(closed_node: Path) -> None:
    source = "import os; print(os.getgroups(), open('/dev/dri/renderD128', 'rb').read(1))"
    with hosting(as_root=True) as host:
        result = host.python(source, device_nodes=(Mount(closed_node, "/dev/dri/renderD128"),))
        assert result.stdout == b"[54321] b'\\x00'\n", result.stderr
        assert host.python("import os; print(os.getgroups())").stdout == b"[]\n"


def test_a_run_of_a_user_opens_what_the_users_groups_open(closed_node: Path) -> None:
    """The group has no name in the namespace of the run, and counts all the same."""
    source = "print(open('/dev/dri/renderD128', 'rb').read(1))"
    mounts = (Mount(closed_node, "/dev/dri/renderD128"),)
    with hosting(as_root=False) as stranger:
        assert b"Permission denied" in stranger.python(source, device_nodes=mounts).stderr
    with hosting(as_root=False, groups=[54_321]) as member:
        result = member.python(source, device_nodes=mounts)
        assert result.stdout == b"b'\\x00'\n", result.stderr
