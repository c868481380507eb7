"""How a command that ends by itself is told: exit statuses, signals, and all that it wrote."""

import os
import signal
from pathlib import Path

import pytest

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import Mount
from tests.provider.sandbox.conftest import Host


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_exit_statuses_are_the_commands_own(host: Host, code: int) -> None:
    outcome = host.run(command=("/bin/sh", "-c", f"exit {code}")).ended
    assert outcome is not None
    assert outcome.exit_code == code
    assert outcome.reason is (EndReason.EXIT_STATUS if code else EndReason.COMPLETED)


def test_an_end_by_a_signal_is_reported_as_such(host: Host) -> None:
    outcome = host.python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").ended
    assert outcome is not None
    assert (outcome.reason, outcome.exit_code) == (EndReason.SIGNAL, -signal.SIGSEGV)
    assert "SIGSEGV" in outcome.detail


def test_an_exit_status_that_looks_like_a_signal_is_none(host: Host) -> None:
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15):
        pytest.skip("this kernel does not tell them apart, and the detail says so")
    # The pause lets the process be noticed before it ends.
    outcome = host.run(command=("/bin/sh", "-c", "sleep 0.1; exit 137")).ended
    assert outcome is not None
    assert (outcome.reason, outcome.exit_code) == (EndReason.EXIT_STATUS, 137)


def test_the_command_starts_once_and_its_time_is_measured(host: Host) -> None:
    result = host.python("import time; t = time.process_time()\nwhile time.process_time() < .3: 0")
    assert result.ended is not None
    assert result.started == 1
    assert result.ended.run_seconds >= 0.3
    assert 0.25 <= result.ended.cpu_seconds <= 2.0
    assert result.ended.memory_peak_bytes > 1_000_000


def test_the_cpu_time_of_a_short_run_is_not_lost(host: Host) -> None:
    """It is over before the watchdog has looked twice."""
    outcome = host.python("import time\nwhile time.process_time() < .045: pass").ended
    assert outcome is not None
    assert outcome.cpu_seconds >= 0.04
    assert outcome.memory_peak_bytes > 1_000_000


def test_streams_stay_apart_and_bytes_stay_bytes(host: Host) -> None:
    source = "import os; os.write(1, bytes(range(256)) * 1000); os.write(2, b'\\xff\\x00')"
    result = host.python(source)
    assert result.stdout == bytes(range(256)) * 1000
    assert result.stderr == b"\xff\x00"
    assert result.largest_piece_bytes <= 65_536
    assert result.ended is not None
    assert result.ended.log_bytes == 256_002


def test_stdin_is_empty_and_no_other_descriptor_is_open(host: Host) -> None:
    result = host.python("import os, sys; print(sys.stdin.read(), os.listdir('/proc/self/fd'))")
    assert result.stdout == b" ['0', '1', '2', '3']\n"  # the last is the listing itself


def test_daemons_left_behind_end_with_the_command(host: Host) -> None:
    source = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(1000)\n"
    result = host.python(source)
    assert result.ended is not None
    assert result.ended.reason is EndReason.COMPLETED
    assert result.ended.run_seconds < 5


def test_a_command_may_close_its_streams_and_work_on(host: Host) -> None:
    result = host.python("import os, time; os.close(1); os.close(2); time.sleep(.2); os._exit(7)")
    assert result.ended is not None
    assert (result.ended.exit_code, result.ended.run_seconds > 0.2) == (7, True)


def test_files_and_variables_are_there(host: Host) -> None:
    result = host.python(
        "import os; print(open('a.txt').read(), os.environ['WORD'], os.getcwd()); "
        "open('a.txt', 'w'); open('/tmp/b', 'w'); open('/dev/shm/c', 'w'); os.remove('a.txt')",
        files={"a.txt": b"hello"},
        environment={"WORD": "spaces = and\nlines"},
    )
    assert result.stdout == b"hello spaces = and\nlines /work\n", result.stderr


def test_a_missing_command_is_an_exit_status_with_a_message(host: Host) -> None:
    result = host.run(command=("/work/missing",))
    assert result.ended is not None
    assert result.ended.exit_code == 127
    assert b"/work/missing" in result.stderr


def test_a_mount_that_does_not_exist_fails_the_sandbox_not_the_task(host: Host) -> None:
    result = host.run(mounts=(Mount(Path("/nowhere/at/all"), "/environment"),))
    assert result.ended is not None
    assert result.ended.reason is EndReason.SANDBOX_FAILED
    assert "/nowhere/at/all" in result.ended.detail
    assert result.ended.detail.isprintable()
    assert (result.started, result.stderr) == (0, b"")
