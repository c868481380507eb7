"""`potluck run` before somebody's eyes: states, output, exit status, Ctrl-C."""

import hashlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from potluck.cli.tasks.task_text import describe_stage
from potluck.model.blob import BlobRef, NamedFile
from potluck.model.error import Unavailable
from potluck.model.ids import AttemptId
from potluck.model.node import SandboxStrength
from potluck.model.task import EndReason, ItemRange, TaskRequest, TaskState, WaitingReason
from potluck.model.task_spec import ScriptSpec
from potluck.store.new_ids import new_task_id
from potluck.wire.consumer import (
    AttemptPage,
    FailedItem,
    FailedItemPage,
    ItemCounts,
    LogPage,
    LogPiece,
    NodeSilence,
    TaskPage,
    TaskView,
)
from potluck.wire.estimate import Estimate, Outlook
from potluck.wire.files import TaskFiles
from tests.cli.command_line import CommandLine, Finished
from tests.cli.pool_fixture import an_attempt
from tests.consumer.fake_server import (
    FakeServer,
    Scene,
    a_task,
    log_event,
    refuses,
    says,
    state_event,
    streams,
)
from tests.processes import potluck

WAITING = WaitingReason("no_device", "No node has a free device.")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("print(1)\n")
    return path


def plays_a_task(server: FakeServer, end: TaskView) -> TaskView:
    """Queued, running with output, then this end."""
    queued = replace(end, state=TaskState.QUEUED, phase="queued", waiting=WAITING)
    running = replace(end, state=TaskState.RUNNING, phase="running")
    server.plays("/v1/tasks", says(queued, 201))
    server.plays(
        f"/v1/tasks/{end.id}/follow",
        streams(
            state_event(1, queued),
            state_event(2, running),
            log_event(3, 0, ("stdout", b"\xff\x00out\n"), ("stderr", b"err\n")),
            cut=True,
        ),
        streams(log_event(4, 2, ("stdout", b"no newline")), state_event(5, end)),
    )
    return queued


def test_output_states_and_exit_status(user: CommandLine, server: FakeServer, script: Path) -> None:
    end = a_task(TaskState.FAILED, exit_code=3, reason=EndReason.EXIT_STATUS)
    plays_a_task(server, end)
    result = user.run("run", script)
    assert result.status == 3
    assert result.stdout == b"\xff\x00out\nno newline"
    lines = result.stderr.splitlines()
    assert lines[0] == "potluck: submitting"
    assert lines[1] == "potluck: queued: No node has a free device."
    assert lines[2:4] == ["potluck: running", "err"]
    assert lines[-1] == "✗ hello failed: exit status 3"


def test_a_silent_node_is_shown_with_the_time_of_the_retry(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0, reason=EndReason.COMPLETED)
    since, until = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
    running = replace(end, state=TaskState.RUNNING, phase="running", reason=None)
    silent = replace(
        running, attempts=[an_attempt("attic", "L4")], silence=NodeSilence(since, until)
    )
    server.plays("/v1/tasks", says(running, 201))
    events = (state_event(1, silent), state_event(2, end))
    server.plays(f"/v1/tasks/{end.id}/follow", streams(*events))
    result = user.run("run", script)
    assert (
        f"running on attic (L4): the node has been silent since {since.astimezone():%H:%M:%S};"
        f" unless it answers, the task moves to another node at {until.astimezone():%H:%M:%S}"
    ) in result.stderr


def test_a_silent_node_fits_the_line_of_a_terminal() -> None:
    since, until = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
    silent = replace(
        a_task(TaskState.RUNNING),
        attempts=[an_attempt("lab-workstation", "NVIDIA GeForce RTX 4090")],
        silence=NodeSilence(since, until),
    )
    text = describe_stage(silent, is_live=True)
    assert f"{until.astimezone():%H:%M:%S}" in text
    assert len(text) < 80 - len("⠙  · 10 min 35 s")


def test_a_failure_with_a_known_cause_says_what_to_do(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    detail, last = "it ended with exit status 1", "ModuleNotFoundError: No module named 'yaml'"
    end = a_task(
        TaskState.FAILED,
        exit_code=1,
        reason=EndReason.EXIT_STATUS,
        detail=detail,
        last_lines=f"Traceback:\n{last}",
    )
    plays_a_task(server, end)
    lines = user.run("run", script).stderr.splitlines()
    assert lines[-2] == f"✗ hello failed: {detail}: {last}"
    assert lines[-1].startswith("Hint: ") and '`# dependencies = ["pyyaml"]`' in lines[-1]
    plays_a_task(server, end)
    assert '["pyyaml"]' in user.run("run", "--json", script).lines()[-1]["hint"]


def test_a_directory_that_is_not_empty_is_reported_before_the_work(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0)
    plays_a_task(server, end)
    server.plays(f"/v1/tasks/{end.id}/files", says(TaskFiles(1, [])))
    result = user.run("run", "--output", script.parent, script)
    message = " ".join(result.stderr.split()).partition("potluck: submitting")[0]
    assert "is not empty; its files are not replaced by files with other content" in message
    assert "--overwrite replaces them" in message


def test_a_taken_place_changes_no_exit_status_and_overwrite_takes_it(
    user: CommandLine, server: FakeServer, script: Path, tmp_path: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0)
    blob = BlobRef(hashlib.sha256(b"new").hexdigest(), 3)
    file_list = says(TaskFiles(1, [NamedFile("model.pt", blob)]))
    (tmp_path / "out").mkdir()
    model_path = tmp_path / "out/model.pt"
    model_path.write_bytes(b"old")
    for options, content in ((), b"old"), (("--overwrite",), b"new"):
        plays_a_task(server, end)
        server.plays(f"/v1/tasks/{end.id}/files", file_list)
        server.plays(f"/v1/blobs/{blob.sha256}", Scene(200, b"new"))
        result = user.run("run", "-o", tmp_path / "out", *options, script)
        message = " ".join(result.stderr.split())
        assert (result.status, model_path.read_bytes()) == (0, content), message
        assert ("1 file did not replace what is in" in message) is (content == b"old")
    saved = tmp_path / "out" / f"potluck-{end.id[-8:]}" / "model.pt"
    assert saved.read_bytes() == b"new"


@pytest.mark.parametrize("command", [["run", "--detach"], ["submit"]])
def test_a_task_that_no_node_can_take_waits_and_says_why(
    user: CommandLine, server: FakeServer, script: Path, command: list[str]
) -> None:
    server.plays("/v1/tasks", says(a_task(), 201))
    server.plays(
        "/v1/tasks/estimate",
        says(Estimate(Outlook.NEVER, "No node has a GPU.", nodes=2, changes=["Ask for a CPU."])),
    )
    result = user.run(*command, script)
    assert result.status == 0
    lines = result.stderr.splitlines()
    assert lines[-3:-1] == ["It waits and cannot start now. No node has a GPU.", "  Ask for a CPU."]
    assert "potluck explain" in lines[-1] and "background" not in result.stderr


def test_json_is_a_stream_that_ends_with_the_task(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0)
    plays_a_task(server, end)
    result = user.run("run", "--json", script)
    assert (result.status, result.stderr) == (0, "")
    lines = result.lines()
    events = [line["event"] for line in lines]
    assert events == ["state", "state", "log", "log", "log", "state", "finished"]
    assert (lines[2]["stream"], lines[2]["text"]) == ("stdout", "�\0out\n")
    last = lines[-1]
    assert (last["id"], last["state"], last["exit_code"]) == (end.id, "succeeded", 0)


def test_the_options_are_in_the_request(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    server.plays("/v1/tasks", says(a_task(), 201))
    options = "--gpu 2 --vram 8GB --model RTX* --max-price 1.5 --cores 3 --ram 2GB"
    more_options = (
        "--disk 512MB --time 1h --priority 5 --attempts 2 --env A=1 --env B=2 --name n --detach"
    )
    for_it = ["--json", "-x", "--", "--gpu", "9"]
    result = user.run("run", *options.split(), *more_options.split(), script, *for_it)
    assert result.status == 0
    sent = msgspec.json.decode(server.requests[0].body, type=TaskRequest)
    assert isinstance(sent.spec, ScriptSpec)
    assert sent.spec.filename == "job.py"
    assert sent.spec.source == "print(1)\n"
    assert sent.spec.arguments == tuple(for_it)
    assert sent.spec.environment == {"A": "1", "B": "2"}
    needs = sent.requirements
    assert (needs.device_kind, needs.device_count, needs.device_model) == ("gpu", 2, "RTX*")
    assert (needs.device_memory_bytes, needs.max_price_micro_per_hour) == (8 * 10**9, 1_500_000)
    assert (needs.cores, needs.memory_bytes, needs.disk_bytes) == (3, 2 * 10**9, 512 * 10**6)
    assert sent.limits.run_seconds == 3600
    assert (sent.priority, sent.max_attempts, sent.name) == (5, 2, "n")


def test_the_request_says_when_where_and_how_often(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    first = new_task_id()
    server.plays("/v1/tasks", says(TaskPage([a_task(id=first)])), says(a_task(), 201))
    device_options = (
        "--gpu 1 --fraction 250m --share --vendor NVIDIA --capability 8.6 --label region=eu"
    )
    node_options = "--label fast --min-reliability 0.9 --sandbox kernel --stop-after-silence 2m"
    when = f"--delay 1h --deadline 2h --expected 5m --after {first[-8:]} --after {first}"
    often = "--array 100 --allow-failures 3 --detach"
    arguments = f"{device_options} {node_options} {when} {often}".split()
    assert user.run("run", *arguments, script).status == 0
    posted = next(request for request in server.requests if request.method == "POST")
    sent = msgspec.json.decode(posted.body, type=TaskRequest)
    needs = sent.requirements
    assert (needs.device_milli, needs.shares_device) == (250, True)
    assert (needs.device_vendor, needs.compute_capability) == ("NVIDIA", "8.6")
    assert (needs.labels, needs.min_reliability) == (("region=eu", "fast"), 0.9)
    assert needs.sandbox is SandboxStrength.KERNEL
    assert sent.limits.stop_after_silence_seconds == 120
    assert (sent.delay_seconds, sent.start_within_seconds) == (3600, 7200)
    assert (sent.expected_seconds, sent.after) == (300, (first,))
    assert (sent.items, sent.allow_failures) == (100, 3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--fraction 0.5 --gpu 2", "--fraction is a part of one device, and --gpu asks for 2."),
        ("--fraction 1.5", "--fraction '1.5' is not a part of a device."),
        ("--share", "--share shares the rest of a device, and without --fraction there is none."),
        ("--allow-failures 1", "--allow-failures 1 exceeds the number of items."),
        ("--delay 2h --deadline 1h", "--delay is longer than --deadline, so it could never start."),
        ("--delay soon", "--delay 'soon' is not a duration."),
        ("--delay 400d", "--delay must be at most 366 d 0 h."),
        ("--max-price 1000000.000001", "--max-price must be at most 1000000 credits."),
        ("--capability 8", "--capability is not a compute capability such as 8.6."),
        ("--array 0", "Invalid value for '--array': it must be at least 1."),
        ("--array x", "Invalid value for '--array': it must be a whole number."),
        ("--name=", "--name cannot be empty."),
        (f"--name={'n' * 300}", "--name cannot be longer than 200 characters."),
    ],
)
def test_invalid_options_are_refused(
    user: CommandLine, server: FakeServer, script: Path, options: str, sentence: str
) -> None:
    result = user.run("run", *options.split(), script)
    assert result.status == 64
    assert sentence in " ".join(result.stderr.split())
    assert not server.requests, "nothing was sent"


def test_an_array_ends_with_the_items_that_failed(
    user: CommandLine, server: FakeServer, script: Path
) -> None:
    counts = [(1000, 900, 50, 0), (1000, 0, 960, 21), (1000, 0, 975, 25)]
    running = [
        a_task(TaskState.RUNNING, items=ItemCounts(*item_counts), phase="running")
        for item_counts in counts[:2]
    ]
    end = a_task(
        TaskState.FAILED,
        id=running[0].id,
        items=ItemCounts(*counts[2]),
        reason=EndReason.ITEMS_FAILED,
        detail="25 of 1000 items failed.",
    )
    failed = [
        FailedItem(item, 1, True, AttemptId("attempt_1"), EndReason.EXIT_STATUS, 3)
        for item in range(24)
    ]
    second_failure = FailedItem(500, 1, False, AttemptId("attempt_1"), EndReason.SIGNAL)
    last = FailedItem(999, 2, True, AttemptId("attempt_1"), EndReason.MEMORY_LIMIT, None, "too fat")
    server.plays("/v1/tasks", says(running[0], 201))
    events = [state_event(place, task) for place, task in enumerate([*running, end], 1)]
    server.plays(f"/v1/tasks/{end.id}/follow", streams(*events))
    server.plays(
        f"/v1/tasks/{end.id}/items",
        says(FailedItemPage([*failed[:10], second_failure], 500)),
        says(FailedItemPage([*failed[10:], last])),
    )
    run_result = user.run("run", "--array", "1000", script)
    assert (run_result.status, run_result.stdout) == (1, b"")
    lines = run_result.stderr.splitlines()
    assert lines[1:3] == [
        "potluck: running: 0 % of 1,000 items",
        "potluck: running: 90 % of 1,000 items",
    ]
    assert lines[3] == "✗ hello failed: 1,000 of 1,000 items, 25 failed"
    assert [line.split() for line in lines[4:6]] == [
        ["ITEM", "TRIES", "WHY"],
        ["0", "1", "exit", "status", "3"],
    ]
    assert lines[-3] == "… and 5 more"
    assert lines[-2].endswith("--item 0` shows the output of an item.")
    assert lines[-1].endswith("shows what its items wrote; --item N shows one of them.")
    server.plays(f"/v1/tasks/{end.id}", says(end))
    server.plays(f"/v1/tasks/{end.id}/items", says(FailedItemPage([second_failure, last])))
    server.plays(f"/v1/tasks/{end.id}/attempts", says(AttemptPage([])))
    result = user.run("result", end.id)
    assert result.stdout == b"", "no attempt wrote anything"
    *_, reason_line, hint, command = result.stderr.splitlines()
    assert reason_line.split() == ["999", "2", "too", "fat"]
    assert hint == "Hint: Request more memory with --ram, such as 4GiB."
    assert "--item 999` shows" in command
    assert "1,000 of 1,000 items, 25 failed" in result.stderr
    as_json = user.run("result", end.id, "--json").lines()[0]
    assert [item["item"] for item in as_json["failed_items"]] == [999]
    follow_result = user.run("logs", "-f", end.id)
    assert follow_result.status == 64 and "in parallel" in follow_result.stderr


def test_the_first_failed_item_shows_the_end_of_its_stderr(
    user: CommandLine, server: FakeServer
) -> None:
    task = a_task(
        TaskState.FAILED, items=ItemCounts(3, 0, 2, 1), reason=EndReason.ITEMS_FAILED, kind="script"
    )
    lines = "Traceback:\nModuleNotFoundError: No module named 'yaml'"
    attempt_id, reason = AttemptId("attempt_1"), EndReason.EXIT_STATUS
    bad = FailedItem(1, 1, True, attempt_id, reason, 1, "it ended with status 1", lines)
    server.plays(f"/v1/tasks/{task.id}", says(task))
    server.plays(f"/v1/tasks/{task.id}/items", says(FailedItemPage([bad])))
    server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([])))
    stderr = user.run("result", task.id).stderr
    assert "it ended with status 1: ModuleNotFoundError: No module named 'yaml'" in stderr
    assert (
        f"The end of item 1's stderr; `potluck logs {task.id[-8:]} --item 1` shows all:" in stderr
    )
    assert "  Traceback:\n" in stderr and '["pyyaml"]' in stderr


def test_an_item_has_a_result_of_its_own(user: CommandLine, server: FakeServer) -> None:
    task = a_task(
        TaskState.FAILED, items=ItemCounts(3, 0, 2, 1), reason=EndReason.ITEMS_FAILED, kind="script"
    )
    attempt = replace(an_attempt("attic", "L4"), items=ItemRange(0, 3))
    bad = FailedItem(1, 2, True, attempt.id, EndReason.EXIT_STATUS, 3, "", "no\nluck")
    pieces = [
        LogPiece(stream, text)
        for item in range(3)
        for stream, text in (("potluck", b"item %d:\n" % item), ("stdout", b"out %d\n" % item))
    ]

    def result_of(item: int, *options: str) -> Finished:
        failed = [bad] if item <= 1 else []
        server.plays(f"/v1/tasks/{task.id}", says(task))
        server.plays(f"/v1/tasks/{task.id}/items", says(FailedItemPage(failed)))
        server.plays(f"/v1/tasks/{task.id}/attempts", says(AttemptPage([attempt])))
        page = LogPage(attempt.id, 0, 6, pieces, complete=True)
        server.plays(f"/v1/tasks/{task.id}/logs", says(page), says(replace(page, pieces=[])))
        return user.run("result", task.id, "--item", str(item), *options)

    good = result_of(2)
    assert (good.status, good.stdout) == (0, b"out 2\n")
    assert "item   2 of 3\nstate  succeeded\n" in good.stderr
    failed = result_of(1)
    assert failed.stdout == b"out 1\n"
    assert "exit status 3: luck" in failed.stderr and "  no\n  luck\n" in failed.stderr
    (document,) = result_of(1, "--json").lines()
    assert (document["state"], document["stdout"], document["failures"]) == ("failed", "out 1\n", 2)
    assert "Its items are 0 to 2." in result_of(3).stderr
    assert result_of(1, "-o", "somewhere").status == 64


@pytest.mark.parametrize(
    ("command_words", "passed_options"),
    [
        (["SCRIPT", "--dry-run", "--epochs"], "--dry-run is"),
        (["SCRIPT", "--gpu", "--json"], "--gpu, --json are"),
        (["--", "SCRIPT", "--dry-run"], ""),
        (["SCRIPT", "-n", "--dry-run=1"], ""),
    ],
)
def test_options_after_the_script_are_the_scripts_with_a_warning(
    user: CommandLine,
    server: FakeServer,
    script: Path,
    command_words: list[str],
    passed_options: str,
) -> None:
    plays_a_task(server, a_task(TaskState.SUCCEEDED, exit_code=0))
    result = user.run("run", *(str(script) if word == "SCRIPT" else word for word in command_words))
    warning = f"potluck: {passed_options} passed to {script}; options for Potluck go before it."
    message = " ".join(result.stderr.split())
    assert (warning in message) == bool(passed_options)
    assert passed_options or "options for Potluck" not in message
    (sent,) = [call for call in server.requests if call.method == "POST"]
    arguments = command_words[command_words.index("SCRIPT") + 1 :]
    spec = msgspec.json.decode(sent.body)["spec"]
    assert spec["arguments"] == arguments, "nothing is taken from the script"


def test_stdin_is_a_script_too(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/tasks", says(a_task(), 201))
    assert user.run("run", "--detach", "-", stdin=b"print(2)").status == 0
    sent = msgspec.json.decode(server.requests[0].body, type=TaskRequest)
    assert isinstance(sent.spec, ScriptSpec)
    assert (sent.spec.filename, sent.spec.source) == ("stdin.py", "print(2)")


def plays_an_endless_task(server: FakeServer) -> TaskView:
    """Runs until it is cancelled: its stream is never there for long."""
    task = a_task(TaskState.RUNNING)
    cancelled = replace(task, state=TaskState.CANCELLED)
    server.plays("/v1/tasks", says(task, 201))
    server.plays(
        f"/v1/tasks/{task.id}/follow",
        streams(state_event(1, task), log_event(2, 0, ("stdout", b"working\n"))),
        refuses(Unavailable("Restarting.")),
    )
    server.plays(f"/v1/tasks/{task.id}/cancel", says(cancelled))
    return task


def was_cancelled(server: FakeServer) -> bool:
    return any(request.path.endswith("/cancel") for request in server.requests)


def test_ctrl_c_without_a_terminal_cancels(
    process_user: CommandLine, server: FakeServer, script: Path
) -> None:
    plays_an_endless_task(server)
    with process_user.start("run", script) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"working\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "hello cancelled" in process.stderr.read().decode()
    assert was_cancelled(server)


class Terminal:
    """The other end of a pseudo-terminal, as a person sees it."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            self.seen += os.read(self._descriptor, 65_536).decode("utf-8", "replace")

    def wait_for_end(self) -> None:
        try:
            while received := os.read(self._descriptor, 65_536):
                self.seen += received.decode("utf-8", "replace")
        except OSError:  # how Linux says that the other side is closed
            pass


# Makes the terminal the controlling one, so that a typed Ctrl-C is a signal, and becomes potluck.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def terminal(
    user: CommandLine, *arguments: str | Path
) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    controller_fd, terminal_fd = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, *potluck(*arguments)],
        stdin=terminal_fd,
        stdout=terminal_fd,
        stderr=terminal_fd,
        env={**user.variables, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(terminal_fd)
    try:
        yield Terminal(controller_fd), process
    finally:
        os.close(controller_fd)
        process.kill()
        process.wait()


QUESTION = "[d]etach and let it run, [c]ancel it (or Ctrl-C again), Enter to continue? "


@pytest.mark.parametrize(
    ("reply", "status", "cancelled", "question"),
    [
        ("d\n", 0, False, "It continues in the background"),
        ("c\n", 130, True, "hello cancelled"),
        ("\x03", 130, True, "hello cancelled"),  # a second Ctrl-C
    ],
    ids=["detach", "cancel", "second Ctrl-C"],
)
def test_ctrl_c_in_a_terminal_asks(
    process_user: CommandLine,
    server: FakeServer,
    script: Path,
    reply: str,
    status: int,
    cancelled: bool,
    question: str,
) -> None:
    plays_an_endless_task(server)
    with terminal(process_user, "run", script) as (person, process):
        person.wait_for("working")
        person.type("\x03")
        person.wait_for(QUESTION)
        person.type(reply)
        person.wait_for(question)
        person.wait_for_end()
        assert process.wait(30) == status
    assert was_cancelled(server) == cancelled


def test_the_live_line_makes_room_for_output(
    process_user: CommandLine, server: FakeServer, script: Path
) -> None:
    end = a_task(TaskState.SUCCEEDED, exit_code=0)
    plays_a_task(server, end)
    with terminal(process_user, "run", script) as (person, process):
        person.wait_for_end()
        assert process.wait(30) == 0
    # the task's last line had no end, and the summary does not continue it
    assert "no newline\r\n✓ hello succeeded" in person.seen.replace("\r\x1b[K", "")
