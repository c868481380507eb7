"""Touching a wall ends the run with that wall's reason, soon, and the machine does not notice."""

import pytest

from potluck.model.task import MIB, EndReason
from tests.provider.sandbox.conftest import Host, confinement, groups, hosting
from tests.provider.sandbox.host import Answer, Request

FORKS_FOREVER = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
EATS_MEMORY = "held = []\nwhile True: held.append(bytearray(1 << 20))"
FILLS_DISK = "open('big', 'wb').write(bytes(64 << 20))"
FILLS_TMP_AND_GOES_ON = """
import time
try:
    open('/tmp/big', 'wb').write(bytes(64 << 20))
except OSError:
    pass
time.sleep(60)
"""


def reason(answer: Answer) -> EndReason:
    assert answer.ended is not None
    assert answer.ended.run_seconds < 10
    return answer.ended.reason


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FORKS_FOREVER, EndReason.PROCESS_LIMIT),
        (EATS_MEMORY, EndReason.MEMORY_LIMIT),
        (FILLS_DISK, EndReason.DISK_LIMIT),  # it ends by itself, at once
        (FILLS_TMP_AND_GOES_ON, EndReason.DISK_LIMIT),
    ],
    ids=["forks", "memory", "disk", "tmp"],
)
def test_a_wall_has_its_own_reason(host: Host, source: str, expected: EndReason) -> None:
    assert reason(host.python(source)) is expected


def test_sleeping_past_the_limit(host: Host) -> None:
    result = host.run(command=("/bin/sleep", "60"), seconds=0.3)
    assert reason(result) is EndReason.TIME_LIMIT
    assert result.ended is not None
    assert 0.3 <= result.ended.run_seconds < 3
    assert result.ended.exit_code is None


def test_shared_memory_counts_as_memory(host: Host) -> None:
    source = "open('/dev/shm/x', 'wb').write(bytes(100 << 20)); held = bytearray(60 << 20)\n"
    result = host.python(source + "import time; time.sleep(60)")
    assert reason(result) is EndReason.MEMORY_LIMIT


def test_files_at_work_do_not_count_as_memory(host: Host) -> None:
    source = "open('x', 'wb').write(bytes(70 << 20)); held = bytearray(70 << 20)\n"
    result = host.python(
        source + "import time; time.sleep(.3)", memory_bytes=100 * MIB, disk_bytes=100 * MIB
    )
    assert reason(result) is EndReason.COMPLETED, result


def test_only_the_work_directory_is_writable(host: Host) -> None:
    source = """
import os
for path in ('/x', '/usr/x', '/etc/x', '/dev/x', '/proc/sys/kernel/hostname', '/etc/passwd'):
    try:
        open(path, 'w').write('x')
        print('wrote', path)
    except OSError:
        pass
"""
    result = host.python(source)
    assert (result.stdout, result.stderr) == (b"", b"")


def test_cgroups_limit_the_cores(as_root: bool) -> None:
    with hosting(as_root) as host:
        if host.report.cpu == "none":
            pytest.skip("nothing limits the CPU here, and the report says so")
        sleeper = confinement(command=("/bin/sh", "-c", "echo CUT; sleep 60"), cores=3)
        host.ask(Request(sleeper, tell=True))
        files = ("cpu.max", "cpu.cfs_quota_us")
        quotas = {
            (group / file).read_text().split()[0]
            for group in groups(host.state_directory)
            for file in files
            if (group / file).exists()
        }
    assert quotas == {"300000"}


def test_the_report_names_the_enforced_limits(host: Host, is_root: bool) -> None:
    report = host.report
    assert (report.driver, report.network) == ("bwrap", "namespaces")
    assert report.disk == ("disk image" if is_root else "watchdog")
    assert report.syscalls == "seccomp"
    if not is_root and "cgroup" not in report.memory:
        assert (report.memory, report.cpu) == ("watchdog", "none")
        assert report.notes
