"""Runs in containers: what they see, how they end, and which walls hold. By Docker; the others, and
all that holds for every driver, in the long tests."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from potluck.model.node import SandboxStrength
from potluck.model.task import MIB, EndReason
from potluck.model.terms import TaskKind
from potluck.provider.sandbox.driver import PYTHON, Mount
from tests.ordinary_user import need_ordinary_user
from tests.provider.sandbox.conftest import SECRET, Host, confinement, hosting
from tests.provider.sandbox.docker.engine import Started, starting
from tests.provider.sandbox.host import Request
from tests.provider.sandbox.test_limit_reasons import EATS_MEMORY, FILLS_DISK, FORKS_FOREVER
from tests.provider.sandbox.test_recall import POLITE

# All of what a run sees, in one.
LOOKS_AROUND = """
import json, os, socket, sys
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status') if ':\\t' in line)
def refused(path):
    try:
        open(path, 'w').close()
    except OSError as error:
        return type(error).__name__
os.write(2, bytes(range(256)))
print(json.dumps({
    'uid': os.getuid(), 'groups': os.getgroups(), 'cwd': os.getcwd(), 'read': sys.stdin.read(),
    'variables': {name: os.environ.get(name) for name in ('WORD', 'HOME', 'HOST_SECRET')},
    'first': open('/proc/1/environ').read(), 'file': open('a.txt').read(),
    'powers': [status[name].strip() for name in ('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp')],
    'interfaces': [name for _, name in socket.if_nameindex()],
    'host': [path for path in ('/home', '/root', '/var', '/run', '/srv', '/etc/shadow')
             if os.path.exists(path)],
    'sys': os.listdir('/sys'), 'drivers': os.listdir('/proc/driver'),
    'refused': [refused(path) for path in ('/x', '/etc/x', '/usr/x', '/dev/x', '/sys/x')],
    'mounted': open('/environment/text').read(), 'name': socket.gethostname(),
    'resolv': open('/etc/resolv.conf').read(),
    'pids': sorted(int(name) for name in os.listdir('/proc') if name.isdigit())[:1],
}), flush=True)
os._exit(137)
"""


@pytest.fixture(scope="module")
def host(docker: Started) -> Iterator[Host]:
    with hosting(True, docker.kind) as host:
        yield host


def test_the_report_names_the_enforced_limits(host: Host) -> None:
    report = host.report
    assert (report.driver, report.disk, report.network) == ("docker", "disk image", "namespaces")
    assert (report.syscalls, report.user) == ("seccomp", "own uid")
    assert {report.memory, report.processes, report.cpu} <= {"cgroup v1", "cgroup v2"}
    assert set(report.kinds) == set(TaskKind)
    assert report.is_safe_for_strangers
    assert report.strength is SandboxStrength.NAMESPACES


def test_a_run_sees_its_inputs_and_nothing_of_the_host(host: Host, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "text").write_text("of the environment")
    result = host.python(
        LOOKS_AROUND,
        files={"a.txt": b"hello"},
        environment={"WORD": "spaces = and\nlines"},
        mounts=(Mount(tmp_path, "/environment"),),
    )
    assert result.ended is not None
    assert (result.ended.reason, result.ended.exit_code) == (EndReason.EXIT_STATUS, 137), result
    assert result.stderr == bytes(range(256)), "streams stay apart, and bytes stay bytes"
    report = json.loads(result.stdout)
    assert (
        SECRET not in report.pop("first") and "WORD" not in result.stdout.decode().split("first")[1]
    )
    assert report.pop("uid") >= 0x7000_0000
    assert report.pop("resolv").startswith("#")
    del report["groups"]
    assert report == {
        "cwd": "/work",
        "read": "",
        "variables": {"WORD": "spaces = and\nlines", "HOME": "/work", "HOST_SECRET": None},
        "file": "hello",
        "powers": ["0" * 16, "0" * 16, "1", "2"],
        "interfaces": ["lo"],
        "host": [],
        "sys": [],
        "drivers": [],
        "refused": [*["OSError"] * 3, *["PermissionError"] * 2],
        "mounted": "of the environment",
        "name": "potluck",
        "pids": [1],
    }
    assert result.ended.cpu_seconds > 0.01
    assert result.ended.memory_peak_bytes > 1_000_000


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (FORKS_FOREVER, EndReason.PROCESS_LIMIT),
        (EATS_MEMORY, EndReason.MEMORY_LIMIT),
        (FILLS_DISK, EndReason.DISK_LIMIT),
        ("import time; time.sleep(60)", EndReason.TIME_LIMIT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", EndReason.SIGNAL),
    ],
    ids=["forks", "memory", "disk", "time", "signal"],
)
def test_every_wall_has_its_own_reason(host: Host, source: str, expected: EndReason) -> None:
    result = host.python(source, seconds=0.5 if expected is EndReason.TIME_LIMIT else 20.0)
    assert result.ended is not None
    assert result.ended.reason is expected, result
    if expected is EndReason.SIGNAL:
        assert result.ended.exit_code == -signal.SIGSEGV


def test_a_recalled_container_is_signalled_and_may_finish(host: Host) -> None:
    polite = confinement(command=(PYTHON, "-I", "-c", POLITE), seconds=60.0)
    result = host.ask(Request(polite, recalls=(10.0,)))
    assert result.ended is not None
    assert result.ended.reason is EndReason.RECLAIMED
    assert result.stdout == b"CUT\nchild kept\nfather kept\n"
    assert result.ended.run_seconds < 5


def test_files_are_brought_into_and_out_of_the_container(host: Host) -> None:
    source = "open('made', 'w').write(open('given').read() * 2)"
    confined = confinement(command=(PYTHON, "-I", "-c", source))
    result = host.ask(Request(confined, brings={"given": b"ab"}))
    assert result.ended is not None
    assert result.ended.reason is EndReason.COMPLETED, result.stderr
    assert result.left == {"given": b"ab", "made": b"abab"}


def test_a_mount_that_is_not_there_fails_the_sandbox_and_is_not_made(
    host: Host, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    result = host.run(mounts=(Mount(missing, "/environment"),))
    assert result.ended is not None
    assert result.ended.reason is EndReason.SANDBOX_FAILED
    assert str(missing) in result.ended.detail
    assert not missing.exists()


def test_an_ordinary_user_needs_no_more_than_the_engines_socket(docker: Started) -> None:
    need_ordinary_user()
    docker.socket.parent.chmod(0o755)
    docker.socket.chmod(0o666)
    with hosting(False, docker.kind) as host:
        assert (host.report.disk, host.report.user) == ("watchdog", "the provider's user")
        shuts = "import os; os.mkdir('shut', 0); os.symlink('/etc', 'link'); print(os.getuid())"
        result = host.python(shuts)
        assert (result.stdout, result.stderr) == (b"65534\n", b"")
        assert list((host.state_directory / "docker").iterdir()) == []
        full = host.python(FILLS_DISK + "; import time; time.sleep(60)")
        assert full.ended is not None
        assert full.ended.reason is EndReason.DISK_LIMIT


@pytest.mark.parametrize("name", ["podman", pytest.param("docker+runsc", marks=pytest.mark.long)])
def test_other_engines_enforce_the_same_limits(name: str) -> None:
    """The rest of what they hold is among the long tests."""
    source = (
        "import os, socket; print(os.getuid() > 0x70000000, socket.if_nameindex(), flush=True);"
        "os.write(2, b'\\xff\\x00'); os._exit(137)"
    )
    with starting(name) as engine, hosting(True, engine.kind) as host:
        is_gvisor = engine.runtime is not None
        assert host.report.driver == ("runsc" if is_gvisor else "docker")
        assert host.report.syscalls == ("gVisor and seccomp" if is_gvisor else "seccomp")
        is_kernel = host.report.strength is SandboxStrength.KERNEL
        assert is_kernel is is_gvisor
        result = host.python(source)
        assert result.ended is not None
        assert (result.ended.reason, result.ended.exit_code) == (EndReason.EXIT_STATUS, 137), result
        assert result.stdout == b"True [(1, 'lo')]\n"
        assert result.stderr == b"\xff\x00"
        crowded = host.python(FORKS_FOREVER, memory_bytes=1024 * MIB)
        assert crowded.ended is not None
        assert crowded.ended.reason is EndReason.PROCESS_LIMIT


def test_a_command_that_speaks_for_the_first_process_harms_itself_alone(host: Host) -> None:
    """It is the same user, and can write where that writes: a frame without end, for one."""
    forged = "open('/proc/1/fd/1', 'wb', 0).write(b'1' + b'\\xff' * 4 + bytes(100_000))"
    result = host.python(f"{forged}; import time; time.sleep(60)")
    assert result.ended is not None
    assert result.ended.reason is EndReason.SIGNAL
    assert result.ended.run_seconds < 10
    assert host.run().ended is not None
