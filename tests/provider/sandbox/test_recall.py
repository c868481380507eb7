"""A run that is called back: it is asked to end, has its grace, and leaves nothing."""

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import PYTHON
from tests.provider.sandbox.conftest import Host, confinement, groups
from tests.provider.sandbox.host import Answer, Request
from tests.provider.sandbox.test_nothing_is_left import _descendants

# A father and a child, each of which has something to say when it is asked to end.
POLITE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
name = 'father' if os.fork() else 'child'
if name == 'father':
    os.write(1, b'CUT\\n')
signal.sigwait([signal.SIGTERM])
if name == 'father':
    os.wait()
open(name, 'w').write('kept')
os.write(1, f'{name} {open(name).read()}\\n'.encode())
"""
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        time.sleep(1000)
print('CUT', flush=True)
time.sleep(1000)
"""
RUDE = "import time; print('CUT', flush=True); time.sleep(100)"


def test_every_process_is_asked_and_may_finish(any_host: Host) -> None:
    result = _recalled(any_host, POLITE, 10.0)
    assert result.ended is not None
    assert result.ended.reason is EndReason.RECLAIMED, "though it ended with exit status 0"
    assert result.ended.detail == "the owner reclaimed the device"
    assert result.ended.run_seconds < 5, "the grace is not waited for in vain"
    assert result.stdout == b"CUT\nchild kept\nfather kept\n"
    assert _descendants(any_host.process.pid) == []


def test_a_process_that_ignores_the_signal_is_killed_after_the_grace(any_host: Host) -> None:
    result = _recalled(any_host, DEAF, 0.3)
    assert result.ended is not None
    assert result.ended.reason is EndReason.RECLAIMED
    assert 0.3 <= result.ended.run_seconds < 5
    assert _descendants(any_host.process.pid) == []
    assert groups(any_host.state_directory) == []


def test_a_process_without_a_handler_ends_immediately(any_host: Host) -> None:
    result = _recalled(any_host, RUDE, 10.0)
    assert result.ended is not None
    assert result.ended.reason is EndReason.RECLAIMED
    assert result.ended.run_seconds < 5


def test_a_second_stop_request_shortens_the_grace_and_keeps_the_reason(any_host: Host) -> None:
    result = _recalled(any_host, DEAF, 1000.0, 0.1)
    assert result.ended is not None
    assert result.ended.reason is EndReason.RECLAIMED
    assert result.ended.run_seconds < 5


def test_a_run_recalled_before_its_start_never_starts(any_host: Host) -> None:
    confined = confinement(command=(PYTHON, "-I", "-c", RUDE))
    result = any_host.ask(Request(confined, is_recalled_before=True))
    assert result.ended is not None
    assert result.ended.reason is EndReason.RECLAIMED
    assert (result.started, result.stdout) == (0, b"")


def _recalled(host: Host, source: str, *graces: float) -> Answer:
    confined = confinement(name="attempt_back", command=(PYTHON, "-I", "-c", source), seconds=60.0)
    return host.ask(Request(confined, recalls=graces))
