"""The work directory of a run is on the owner's disk, with a limit, and goes with the run."""

import gc
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from potluck.model.task import MIB, EndReason
from potluck.provider.sandbox.disk_image import ImageFailed, image_bytes, make_template
from potluck.provider.sandbox.driver import PYTHON
from potluck.provider.sandbox.work_disk import DISKS, WorkDisks
from tests.processes import await_true
from tests.provider.sandbox.conftest import Host, confinement, hosting
from tests.provider.sandbox.host import Request

# What is mounted as the work directory, as the run itself sees it.
KIND = """
lines = [line.split() for line in open('/proc/self/mountinfo')]
print([line[line.index('-') + 1] for line in lines if line[4] == '/work'][0])
"""
LASTING = """
import time
with open('large', 'wb') as file: file.write(bytes(40 << 20))
print('CUT', flush=True)
time.sleep(1000)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="disk images need root")


def kind(host: Host, **changes: object) -> str:
    return host.python(KIND, **changes).stdout.decode().strip()


def loops(directory: Path) -> list[str]:
    """Loop devices of files below the directory."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [text for file in files if str(directory) in (text := file.read_text())]


def mounts(directory: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(directory) in line]


def test_files_may_be_larger_than_the_memory(host: Host) -> None:
    source = """
import os
with open('x', 'wb') as file:
    for _ in range(200): file.write(bytes(1 << 20))
print(os.path.getsize('x') >> 20)
"""
    result = host.python(source, memory_bytes=64 * MIB, disk_bytes=256 * MIB)
    assert (result.ended and result.ended.reason, result.stdout) == (
        EndReason.COMPLETED,
        b"200\n",
    ), result


def test_other_accounts_use_the_disk_only_if_the_kernel_limits_them(
    host: Host, is_root: bool
) -> None:
    assert kind(host) != "tmpfs"
    assert (kind(host, is_of_other=True) == "tmpfs") == (not is_root)


def test_a_file_that_exceeds_the_limit_of_a_watched_directory(host: Host) -> None:
    """One that ignores no signal is killed by the kernel; the reason is the disk all the same."""
    source = """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open('x', 'wb') as file: file.truncate(1 << 40)
"""
    result = host.python(source)
    assert result.ended is not None
    if host.report.disk == "watchdog":
        assert result.ended.reason is EndReason.DISK_LIMIT
        assert result.ended.exit_code == -signal.SIGXFSZ
    else:  # a sparse file takes nothing
        assert result.ended.reason is EndReason.COMPLETED


def test_the_working_directory_is_empty_and_writable(host: Host) -> None:
    result = host.python("import os; print(os.listdir('.')); os.mkdir('a'); os.rmdir('a')")
    assert result.stdout == b"['.tmp']\n", result


@needs_root
@pytest.mark.parametrize("size_mib", [1, 2, 16, 256, 1000, 20_000])
def test_an_image_has_room_for_the_requested_size(tmp_path: Path, size_mib: int) -> None:
    image = make_template(tmp_path, size_mib * MIB).make_image(tmp_path)
    try:
        space = os.fstatvfs(image.directory)
        assert image.held_bytes < 2 * MIB
        assert os.listdir(image.directory) == []  # noqa: PTH208
    finally:
        image.close()
    usable = space.f_bavail * space.f_frsize
    assert size_mib * MIB <= usable <= size_mib * MIB * 1.01 + 256 * 1024
    assert usable < image_bytes(size_mib * MIB)
    await_true(lambda: not loops(tmp_path), "its loop device is cleared")
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_killed_provider_leaves_no_image_even_before_it_starts_again() -> None:
    with hosting(True) as doomed:
        command = (PYTHON, "-c", LASTING)
        confined = confinement(command=command, disk_bytes=64 * MIB, seconds=60.0)
        doomed.ask(Request(confined, tell=True))
        assert loops(doomed.state_directory)
        assert mounts(doomed.state_directory) == []  # the sandbox alone has it
        doomed.process.kill()
        doomed.process.wait()
        await_true(lambda: not loops(doomed.state_directory), "its images are gone")
        assert list((doomed.state_directory / DISKS).iterdir()) == []


@needs_root
def test_leftovers_of_a_provider_killed_during_setup_are_removed() -> None:
    """Its image is mounted, and an ordinary directory and an image's name are there."""
    with hosting(True) as host:
        directory = host.state_directory / DISKS
        image = make_template(directory, MIB).make_image(directory)
        image.attach(directory / "mounted")
        image.close()
        (directory / "plain" / "deep").mkdir(parents=True)
        (directory / ".some.image").write_bytes(bytes(1000))
        assert mounts(directory)
        host.reap()
        assert mounts(directory) == []
        assert list(directory.iterdir()) == []
        assert host.python("print(1)").stdout == b"1\n"


@needs_root
def test_without_loop_devices_a_watchdog_limits_the_disk() -> None:
    hide = 'mount --bind /dev/null /dev/loop-control && exec "$@"'
    with hosting(True, wrapper=("unshare", "--mount", "sh", "-c", hide, "sh")) as host:
        assert host.report.disk == "watchdog"
        assert any("others_on_disk" in note for note in host.report.notes), host.report
        assert kind(host) != "tmpfs"
        assert kind(host, is_of_other=True) == "tmpfs"
        full = host.python("open('x', 'wb').write(bytes(40 << 20)); import time; time.sleep(60)")
        assert full.ended is not None
        assert full.ended.reason is EndReason.DISK_LIMIT
        assert list((host.state_directory / DISKS).iterdir()) == []


@needs_root
async def test_a_disk_that_is_full_is_an_error_of_the_node(tmp_path: Path) -> None:
    """Of a run that needs an image, with a sentence; nothing is left of the trial."""
    missing = tmp_path / "a file"
    missing.write_text("")
    disks = WorkDisks(missing / "disks", lambda: False)
    await disks.probe()
    assert disks.mechanism == "watchdog"
    assert "Not a directory" in disks.problem
    with pytest.raises(ImageFailed):
        make_template(tmp_path / "nowhere", MIB)


async def test_owners_may_let_others_use_a_watched_directory(tmp_path: Path) -> None:
    for may_others, mechanism in ((False, "tmpfs"), (True, "watchdog")):
        disks = WorkDisks(tmp_path, partial(bool, may_others))  # not probed: as without root
        disk = await disks.take(confinement(is_of_other=True))
        assert disk.mechanism == mechanism
        await disks.give_back(disk)
    assert list(tmp_path.iterdir()) == []


@needs_root
async def test_a_driver_that_is_dropped_leaves_no_loop_device(tmp_path: Path) -> None:
    disks = WorkDisks(tmp_path, lambda: False)
    await disks.probe()
    assert len(loops(tmp_path)) == 1
    del disks
    gc.collect()
    await_true(lambda: not loops(tmp_path), "what it had prepared is gone")


@needs_root
async def test_the_size_of_runs_can_be_read_while_an_image_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = WorkDisks(tmp_path, lambda: False)
    await disks.probe()
    disk = await disks.take(confinement())
    disk.detach()
    release, sizes = disk.release, []

    def release_and_read() -> None:
        release()
        sizes.append(disks.held_bytes)

    monkeypatch.setattr(disk, "release", release_and_read)
    await disks.give_back(disk)
    await disks.reap()
    assert sizes == [0]
