"""The whole provider in its real sandbox, against a server that keeps its promises."""

import asyncio
import errno
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from potluck.local.durable_files import draft_path
from potluck.model.device import Availability
from potluck.model.error import BadSettings
from potluck.model.task import EndReason, Limits
from potluck.provider.announcement import (
    Announcement,
    AttemptFinished,
    AttemptStarted,
    AttemptStopped,
    RegistrationDone,
    Stopped,
)
from potluck.provider.control.message import InEffect, Reclaim
from potluck.provider.daemon import provide
from potluck.provider.data_directory import attempts_directory, tidy
from potluck.provider.server.log_upload import CUT_MARK
from potluck.provider.shutdown_request import on_stop_signals
from potluck.store.new_ids import new_account_id
from potluck.wire.provider import Preparing, Started
from tests.control_request import ask_once
from tests.provider.builders import a_grant, lease_of, settings_for
from tests.provider.fake_server import FakeServer

T = TypeVar("T")

# Says that it runs, and then runs for longer than any test is patient.
ENDLESS = "import time\nprint('running')\ntime.sleep(600)"

SHORT = "import time\ntime.sleep(0.5)"


class Running:
    """A provider in this process, and what it announced."""

    def __init__(self) -> None:
        self.announced: list[Announcement] = []
        self.stop = asyncio.Event()
        self.is_over = False

    def some(self, kind: type[T]) -> list[T]:
        return [announcement for announcement in self.announced if isinstance(announcement, kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def providing(
    server: FakeServer, directory: Path, unsafe_no_sandbox: bool = False
) -> AsyncIterator[Running]:
    running = Running()
    settings = replace(settings_for(server.url, directory), unsafe_no_sandbox=unsafe_no_sandbox)
    task = asyncio.create_task(provide(settings, running.announced.append, running.stop))
    task.add_done_callback(lambda _: setattr(running, "is_over", True))
    try:
        await running.until(lambda: bool(running.some(RegistrationDone)) or running.is_over)
        yield running
    finally:
        running.stop.set()
        async with asyncio.timeout(20):
            await task


async def test_a_script_runs_and_its_output_and_outcome_arrive(
    server: FakeServer, tmp_path: Path
) -> None:
    source = (
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['GREETING'], os.environ['POTLUCK_ATTEMPT_ID'])\n"
        "print(os.environ['POTLUCK_TASK_ID'], file=sys.stderr)\n"
    )
    grant = a_grant(source, arguments=("one", "--two"), environment={"GREETING": "hello"})
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        finished = await server.outcome(grant.attempt_id)
        await running.until(lambda: bool(running.some(AttemptFinished)))
    assert (finished.reason, finished.exit_code) == (EndReason.COMPLETED, 0)
    expected = f"['one', '--two'] hello {grant.attempt_id}\n"
    assert server.text(grant.attempt_id, "stdout") == expected
    assert server.text(grant.attempt_id, "stderr") == f"{grant.task_id}\n"
    assert finished.usage.run_seconds > 0
    assert finished.usage.log_bytes > 0
    assert server.reports == [Started(lease_of(grant)), finished]
    assert running.some(AttemptStarted) == [AttemptStarted(grant.attempt_id, grant.task_id)]
    assert isinstance(running.announced[-1], Stopped)
    assert server.left == [running.some(RegistrationDone)[0].node_id]


async def test_an_unopenable_journal_is_reported(server: FakeServer, tmp_path: Path) -> None:
    settings = settings_for(server.url, tmp_path)
    (attempts_directory(settings.data_directory, settings.url) / "journal").mkdir(parents=True)
    with pytest.raises(BadSettings, match="cannot be written"):
        await provide(settings, Running().announced.append, asyncio.Event())


async def test_an_incomplete_write_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """But of the owner's file: a command may be writing it just now."""
    names = ("node.json", "wishes.json", "unwritten.json", "measured.json", "power.json")
    for name in (*names, "provider.toml"):
        draft_path(tmp_path / name).write_text("half")
        (tmp_path / name).write_text("whole")
    tidy(tmp_path)
    temporary_files = {path.name for path in tmp_path.iterdir() if path.name.startswith(".")}
    assert [name[:14] for name in temporary_files] == [".provider.toml"]
    assert all((tmp_path / name).read_text() == "whole" for name in names)


async def test_signals_are_handled_without_support_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows."""

    def refuse(*_: object) -> None:
        raise NotImplementedError

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    monkeypatch.setattr(loop, "add_signal_handler", refuse)
    try:
        on_stop_signals(stop.set)
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            await stop.wait()
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


ENDINGS = [
    ("raise SystemExit(3)", EndReason.EXIT_STATUS, 3),
    ("import os; os.kill(os.getpid(), 15)", EndReason.SIGNAL, None),
    ("# /// script\n# dependencies = [\n# ///\n", EndReason.PREPARE_FAILED, None),
    ("import time; time.sleep(60)", EndReason.TIME_LIMIT, None),
]


async def test_every_ending_has_its_reason(server: FakeServer, tmp_path: Path) -> None:
    limits = Limits(run_seconds=2, prepare_seconds=5)
    grants = [a_grant(source, limits=limits) for source, _, _ in ENDINGS]
    async with providing(server, tmp_path):
        await server.offer(*grants)
        outcomes = [await server.outcome(grant.attempt_id) for grant in grants]
    assert [outcome.reason for outcome in outcomes] == [reason for _, reason, _ in ENDINGS]
    assert outcomes[0].exit_code == 3
    assert all(outcome.detail.isprintable() for outcome in outcomes)


async def test_unavailable_dependencies_are_the_tasks_failure(
    server: FakeServer, tmp_path: Path
) -> None:
    source = "# /// script\n# dependencies = ['not-to-be-found']\n# ///\nprint(1)"
    grant = a_grant(source)
    async with providing(server, tmp_path):
        await server.offer(grant)
        finished = await server.outcome(grant.attempt_id)
    assert finished.reason is EndReason.PREPARE_FAILED
    assert finished.detail
    assert finished.usage.prepare_seconds > 0
    assert server.reports[0] == Preparing(lease_of(grant))
    assert server.text(grant.attempt_id, "potluck").startswith("Installing 1 dependency …\n")


async def test_logs_stream_and_a_cancelled_task_ends_silently(
    server: FakeServer, tmp_path: Path
) -> None:
    endless, next_one = a_grant(ENDLESS), a_grant()
    async with providing(server, tmp_path) as running:
        await server.offer(endless)
        await server.until(
            lambda: server.text(endless.attempt_id) == "running\n", "the first line while it runs"
        )
        await server.call_off(endless.attempt_id)
        await running.until(lambda: bool(running.some(AttemptStopped)))
        # The device is free again.
        await server.offer(next_one)
        await server.outcome(next_one.attempt_id)
        await server.until(
            lambda: any(heartbeat.held == () for heartbeat in server.beats[-1:]), "an empty hand"
        )
    assert server.finished(endless.attempt_id) == []
    assert leftovers(tmp_path) == []


async def test_an_outcome_that_was_called_off_is_not_sent_any_more(
    server: FakeServer, tmp_path: Path
) -> None:
    grant, next_one = a_grant(), a_grant()
    server.report_codes = ["unavailable"] * 10_000
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await running.until(lambda: bool(running.some(AttemptFinished)))
        await server.call_off(grant.attempt_id)
        await server.until(
            lambda: any(heartbeat.held == () for heartbeat in server.beats[-1:]), "a drop"
        )
        tries = server.report_tries.count(grant.attempt_id)
        server.report_codes = []
        await server.offer(next_one)
        await server.outcome(next_one.attempt_id)
    assert server.report_tries.count(grant.attempt_id) == tries
    assert leftovers(tmp_path) == []


async def test_work_goes_on_while_the_server_is_silent(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant("import time\nfor i in range(5): print(i); time.sleep(0.1)")
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await running.until(lambda: bool(running.some(AttemptStarted)))
        server.is_silent = True
        await running.until(lambda: bool(running.some(AttemptFinished)))
        assert server.finished(grant.attempt_id) == []
        server.is_silent = False
        finished = await server.outcome(grant.attempt_id)
    assert finished.reason is EndReason.COMPLETED
    assert server.text(grant.attempt_id) == "0\n1\n2\n3\n4\n"


async def test_a_task_that_should_not_outlast_a_silence_is_stopped(
    server: FakeServer, tmp_path: Path
) -> None:
    patient = a_grant("import time\ntime.sleep(3)")
    limits = Limits(run_seconds=30, stop_after_silence_seconds=0.6)
    impatient = a_grant(ENDLESS, limits=limits, device="cpu-2")
    async with providing(server, tmp_path) as running:
        await server.offer(patient, impatient)
        await running.until(lambda: len(running.some(AttemptStarted)) == 2)
        await asyncio.sleep(1.0)
        assert not running.some(AttemptStopped), "the server answers"
        server.is_silent = True
        await running.until(lambda: bool(running.some(AttemptStopped)))
        server.is_silent = False
        stopped = await server.outcome(impatient.attempt_id)
        finished = await server.outcome(patient.attempt_id)
    assert stopped.reason is EndReason.SILENCE
    assert finished.reason is EndReason.COMPLETED, "silence is not death"


async def test_shutdown_gives_running_work_back(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant(ENDLESS)
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await running.until(lambda: bool(running.some(AttemptStarted)))
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started < 5
    assert [outcome.reason for outcome in server.finished(grant.attempt_id)] == [
        EndReason.NODE_LEFT
    ]
    assert len(server.left) == 1
    assert running.some(AttemptStopped) == [AttemptStopped(grant.attempt_id, grant.task_id)]
    assert leftovers(tmp_path) == []


async def test_an_outcome_that_the_server_lacks_outlives_a_shutdown(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant("print('kept')")
    server.report_codes = ["unavailable"] * 10_000
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await running.until(lambda: bool(running.some(AttemptFinished)))
    assert server.left == [], "whoever leaves gives back what it holds"
    server.report_codes = []
    async with providing(server, tmp_path):
        finished = await server.outcome(grant.attempt_id)
    assert finished.reason is EndReason.COMPLETED
    assert server.text(grant.attempt_id) == "kept\n"
    assert len(server.left) == 1


async def test_a_node_that_left_does_not_come_back(server: FakeServer, tmp_path: Path) -> None:
    # Long enough for several heartbeats, each of which the server would answer with 404.
    server.leave_seconds = 0.5
    async with providing(server, tmp_path):
        pass
    assert len(server.left) == len(server.registrations) == 1
    assert server.nodes == set()


async def test_a_log_that_the_server_refuses_ends_no_run(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant("print('x' * 5_000, flush=True)\nprint('y' * 5_000)\nraise SystemExit(3)")
    server.log_cap_bytes = 1_000
    async with providing(server, tmp_path):
        await server.offer(grant)
        finished = await server.outcome(grant.attempt_id)
    assert (finished.reason, finished.exit_code) == (EndReason.EXIT_STATUS, 3)
    assert server.text(grant.attempt_id) == CUT_MARK


async def test_a_slow_disk_delays_no_heartbeat(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant, is_fast, fsync = a_grant(), threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        assert is_fast.wait(10), "nothing else went on meanwhile"
        fsync(descriptor)

    async with providing(server, tmp_path):
        monkeypatch.setattr(os, "fsync", slow)
        await server.offer(grant)
        await server.until(
            lambda: [heartbeat.held for heartbeat in server.beats[-3:]] == [(lease_of(grant),)] * 3,
            "three beats",
        )
        assert server.finished(grant.attempt_id) == [], "what is not durable yet is not told"
        is_fast.set()
        assert (await server.outcome(grant.attempt_id)).reason is EndReason.COMPLETED


async def test_a_log_is_on_the_disk_before_the_outcome_that_counts_it(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant, synced, fsync = a_grant(), [], os.fsync

    def spy(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    async with providing(server, tmp_path):
        monkeypatch.setattr(os, "fsync", spy)
        await server.offer(grant)
        await server.outcome(grant.attempt_id)
        monkeypatch.undo()
    assert synced == [f"{grant.attempt_id}.log", "journal"]


async def test_secrets_are_in_no_file_of_the_provider(server: FakeServer, tmp_path: Path) -> None:
    grant = a_grant(ENDLESS, arguments=("s3cret",), environment={"KEY": "s3cret"})
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await running.until(lambda: bool(running.some(AttemptStarted)))
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert files
        assert [path for path in files if b"s3cret" in path.read_bytes()] == []


async def test_without_a_sandbox_only_the_owners_tasks_are_taken(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant("print('bare')")
    other = a_grant("print('bare')", account_id=new_account_id())
    async with providing(server, tmp_path, unsafe_no_sandbox=True) as running:
        await server.offer(grant, other)
        finished = await server.outcome(grant.attempt_id)
        refused_outcome = await server.outcome(other.attempt_id)
    assert finished.reason is EndReason.COMPLETED
    assert refused_outcome.reason is EndReason.DECLINED
    assert "only tasks of its owner's account" in refused_outcome.detail
    assert other.attempt_id not in server.logs
    assert server.text(grant.attempt_id, "stdout") == "bare\n"
    assert server.registrations[0].own_tasks_only
    assert running.some(RegistrationDone)[0].own_tasks_only


async def test_a_disk_that_takes_no_more_ends_the_provider_with_a_sentence(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    grant = a_grant()
    with pytest.raises(BadSettings, match="No space left") as error_info:
        async with providing(server, tmp_path) as running:
            monkeypatch.setattr(os, "fsync", full)
            await server.offer(grant)
            await running.until(lambda: running.is_over)
    assert "nothing is lost" in error_info.value.hint
    assert server.finished(grant.attempt_id) == []


async def test_a_log_that_the_disk_does_not_take_ends_the_provider_with_a_sentence(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    grant = a_grant(ENDLESS)
    with pytest.raises(BadSettings, match="No space left"):
        async with providing(server, tmp_path) as running:
            monkeypatch.setattr(os, "pwrite", full)
            await server.offer(grant)
            await running.until(lambda: running.is_over)
    assert server.finished(grant.attempt_id) == []


def leftovers(directory: Path) -> list[str]:
    """Logs of attempts that should have been forgotten."""
    return [path.name for path in directory.rglob("*.log")]


async def test_the_sandbox_is_changed_when_nothing_runs_and_without_a_restart(
    server: FakeServer, tmp_path: Path
) -> None:
    brief, own_grant, strangers = a_grant(SHORT), a_grant("print(2)"), a_grant("print(3)")
    strangers = replace(strangers, account_id=new_account_id())
    async with providing(server, tmp_path):
        await server.offer(brief)
        await server.until(lambda: Started(lease_of(brief)) in server.reports, "it runs")
        (tmp_path / "provider.toml").write_text('sandbox = "none"\n')
        changed = await server.outcome(brief.attempt_id)
        assert changed.reason is EndReason.COMPLETED, "what runs is finished"

        def is_unsafe() -> bool:
            registration = server.registrations[-1]
            return registration.own_tasks_only and registration.description.sandbox.driver == "none"

        await server.until(is_unsafe, "the server knows")
        assert not server.registrations[0].own_tasks_only
        await server.until(lambda: _takes_work(server), "it takes work again")
        await server.offer(own_grant, strangers)
        assert (await server.outcome(own_grant.attempt_id)).reason is EndReason.COMPLETED
        refused_outcome = await server.outcome(strangers.attempt_id)
        assert refused_outcome.reason is EndReason.DECLINED
        (tmp_path / "provider.toml").unlink()
        await server.until(lambda: not is_unsafe(), "and back")


async def test_a_device_is_given_back_though_the_owners_file_is_wrong(
    server: FakeServer, tmp_path: Path
) -> None:
    grant = a_grant(ENDLESS)
    async with providing(server, tmp_path) as running:
        await server.offer(grant)
        await running.until(lambda: bool(running.some(AttemptStarted)))
        (tmp_path / "provider.toml").write_text("prise = 1\n")
        assert await asyncio.to_thread(ask_once, tmp_path, Reclaim()) == InEffect()
        finished = await server.outcome(grant.attempt_id)
        assert finished.reason is EndReason.RECLAIMED
        await server.until(lambda: not _takes_work(server), "it is paused")


def _takes_work(server: FakeServer) -> bool:
    (status,) = server.beats[-1].devices
    return status.availability is Availability.AVAILABLE
