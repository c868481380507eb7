"""No attempt to get out of a sandbox succeeds, and those attempts are able to.

Each driver costs one start: all probes run in one sandbox, one after another, each in a process of
its own. Without a sandbox, as an ordinary user, dozens of the same probes get through: see the last
test. `-s` prints what each of them tries and how it was blocked.
"""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from potluck.model.task import MIB
from potluck.provider.sandbox.driver import PYTHON, Mount
from tests.case_counts import CaseCounts, counting_cases
from tests.provider.sandbox.conftest import SECRET, Host, confinement, hosting, skip_unless_possible
from tests.provider.sandbox.docker.engine import starting
from tests.provider.sandbox.escapes.archive import packed
from tests.provider.sandbox.escapes.escape_host import SHOWN, EscapeHost, laid_out
from tests.provider.sandbox.host import Request

LEAST_PROBES = 160
LEAST_OPEN_FOR_A_USER, LEAST_OPEN_FOR_ANYBODY = 60, 120
PROBES = "probes.pyz"
# Root may do anything to this: what is written goes to memory, in mounts that nobody else has.
COPY = """
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay none -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
mount --rbind /dev /mnt/root/dev
mount -t proc none /mnt/root/proc
mount -t sysfs none /mnt/root/sys
work=$PWD
exec chroot /mnt/root sh -c 'cd "$0" && exec "$@"' "$work" "$@"
"""
IN_A_COPY = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "sh", "-ec", COPY, "sh"]

# What gVisor lets be done to the kernel that it is itself.
OF_GVISOR = {"device-fuse", "device-net-tun", "other-devices", "priority", "spared"}
TOLD_TO_GVISOR = """
import os, time
devices = [os.open(f"/dev/{name}", os.O_RDWR) for name in ("fuse", "net/tun")]
os.nice(-5)
open("/proc/self/oom_score_adj", "w").write("-500")
print("CUT", flush=True)
time.sleep(60)
"""

Told = dict[str, str]


def test_bubblewrap(as_root: bool, request: pytest.FixtureRequest) -> None:
    with (
        laid_out(as_root) as escape_host,
        hosting(
            True, state_directory=escape_host.directory / "state", wrapper=escape_host.entering()
        ) as host,
    ):
        results = _from_inside(host, escape_host)
    with counting_cases(request) as tally:
        _all_blocked(
            results, f"escapes from bubblewrap as {'root' if as_root else 'a user'}", tally
        )
        if as_root:
            _list(results, tally)


def test_docker(request: pytest.FixtureRequest) -> None:
    with _engine("docker") as (host, escape_host):
        results = _from_inside(host, escape_host)
    with counting_cases(request) as tally:
        _all_blocked(results, "escapes from docker", tally)


@pytest.mark.long
def test_podman(request: pytest.FixtureRequest) -> None:
    with _engine("podman") as (host, escape_host):
        results = _from_inside(host, escape_host)
    with counting_cases(request) as tally:
        _all_blocked(results, "escapes from podman", tally)


@pytest.mark.long
def test_gvisor(request: pytest.FixtureRequest) -> None:
    """Some attempts reach gVisor's own kernel, which is a process like others for the host's."""
    with _engine("docker+runsc") as (host, escape_host):
        results = _from_inside(host, escape_host)
        host.ask(Request(confinement(command=(PYTHON, "-I", "-c", TOLD_TO_GVISOR)), tell=True))
        opened_by_host = what_the_host_hears()
    with counting_cases(request) as tally:
        beyond = [result for result in results if result["name"] not in OF_GVISOR]
        _all_blocked(beyond, "escapes from docker+runsc", tally)
        for name in sorted(OF_GVISOR):
            with tally("escapes from docker+runsc that gVisor keeps to itself", name):
                assert opened_by_host == [], opened_by_host


@contextmanager
def _engine(name: str) -> Iterator[tuple[Host, EscapeHost]]:
    with laid_out(as_root=True) as escape_host, starting(name, escape_host.entering()) as engine:
        state = escape_host.directory / "state"
        with hosting(True, engine.kind, state, wrapper=escape_host.entering()) as host:
            yield host, escape_host


def what_the_host_hears() -> list[str]:
    """Of the machine's processes that are gVisor: what they should not have."""
    findings, process_count = [], 0
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            if not any("runsc" in word for word in process.cmdline()[:2]):
                continue
            process_count += 1
            opened = [str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
            findings += [
                opened_path
                for opened_path in opened
                if opened_path in ("/dev/fuse", "/dev/net/tun")
            ]
            spared = int(Path(f"/proc/{process.pid}/oom_score_adj").read_text())
            if process.nice() < 0 or spared < 0:
                findings.append(f"{process.cmdline()} has {process.nice()} and {spared}")
    assert process_count, "gVisor does not run"
    return findings


def test_without_a_sandbox_the_same_attempts_succeed(request: pytest.FixtureRequest) -> None:
    """As an ordinary user; and as root, in a copy of the machine that goes away with it."""
    skip_unless_possible(False)
    skip_unless_possible(True)
    with laid_out(as_root=False) as escape_host:
        as_user = _opened(escape_host, escape_host.entering())
    with laid_out(as_root=True) as escape_host:
        as_root = _opened(escape_host, [*escape_host.entering(), *IN_A_COPY])
    assert len(as_user) >= LEAST_OPEN_FOR_A_USER, as_user
    assert len(as_user | as_root) >= LEAST_OPEN_FOR_ANYBODY, as_root
    note = f"{len(as_user)} succeed as an ordinary user, {len(as_root)} as root"
    CaseCounts(request).note(f"escapes without a sandbox: {note}")


def _opened(escape_host: EscapeHost, wrapper: Sequence[str]) -> set[str]:
    results = _without(escape_host, wrapper)
    _print(results)
    assert not [result for result in results if result["state"] == "broken"]
    return {result["name"] for result in results if result["state"] == "open"}


def _from_inside(host: Host, escape_host: EscapeHost) -> list[Told]:
    host_answer = host.run(
        command=(PYTHON, "-I", PROBES, escape_host.bait_inside.to_word()),
        files={PROBES: packed()},
        mounts=(Mount(escape_host.shown, SHOWN),),
        memory_bytes=512 * MIB,
        processes=64,
        seconds=120.0,
    )
    assert host_answer.ended is not None and host_answer.ended.exit_code == 0, (
        host_answer.ended,
        host_answer.stderr,
    )
    assert SECRET.encode() not in host_answer.stdout
    return [json.loads(line) for line in host_answer.stdout.splitlines()]


def _without(escape_host: EscapeHost, wrapper: Sequence[str]) -> list[Told]:
    work = escape_host.directory / "work"
    archive = work / PROBES
    archive.write_bytes(packed())
    bait = escape_host.bait
    with Path(bait.files["data-directory"]).open() as forgotten:
        process = subprocess.run(
            [*wrapper, sys.executable, "-I", str(archive), bait.to_word()],
            cwd=work,
            env={"HOST_SECRET": bait.canary, "SSH_AUTH_SOCK": bait.neighbour.sockets["ssh-agent"]},
            stdin=forgotten,
            stdout=subprocess.PIPE,
            pass_fds=(forgotten.fileno(),),
            timeout=120,
            check=True,
        )
    return [json.loads(line) for line in process.stdout.splitlines()]


def _all_blocked(results: Sequence[Told], row: str, tally: CaseCounts) -> None:
    assert len(results) >= LEAST_PROBES
    _print(results)
    for result in results:
        with tally(row, result["name"]):
            assert result["state"] == "blocked", result


def _list(results: Sequence[Told], tally: CaseCounts) -> None:
    text = ", ".join(f"{result['name']} ({result['how']})" for result in results)
    for line in textwrap.wrap(text, 100, break_on_hyphens=False):
        tally.note(f"  {line}")


def _print(results: Sequence[Told]) -> None:
    for result in results:
        print(f"{result['state']:8} {result['name']:25} {result['tries']} ({result['how']})")
