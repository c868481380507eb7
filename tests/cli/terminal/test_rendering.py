"""Tables, task output and stories: what people read."""

import io
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from rich.color import Color

from potluck.cli.results.output import TaskOutput
from potluck.cli.tasks.task_text import (
    describe_reason,
    describe_stage,
    duration_seconds,
    exit_status,
    ran_seconds,
    summarize_task,
)
from potluck.cli.terminal.live_line import draw_bar, fit_bar
from potluck.cli.terminal.screen import COLOURS, Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.model.ids import AttemptId, DeviceId, NodeId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState, WaitingReason
from potluck.model.usage import Usage
from potluck.wire.consumer import AttemptDevice, AttemptView, ItemCounts, LogPage, LogPiece
from tests.consumer.fake_server import a_task

NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)
CPU = AttemptDevice(DeviceId("device_1"), "CPU plain", 1000, 0)


def an_attempt(**changes: Any) -> AttemptView:
    values = {"state": AttemptState.RUNNING, "devices": [CPU], "assigned_at": NOW}
    return AttemptView(
        id=AttemptId("attempt_1"),
        number=1,
        node_id=NodeId("node_1"),
        node_name="lap\x1b[31mtop",
        **{**values, **changes},
    )


def test_an_outage_is_no_part_of_how_long_it_ran() -> None:
    times = {"started_at": NOW, "finished_at": NOW + timedelta(seconds=68)}
    attempt = an_attempt(state=AttemptState.SUCCEEDED, usage=Usage(run_seconds=25.1), **times)
    task = a_task(state=TaskState.SUCCEEDED, attempts=[attempt], **times)
    assert duration_seconds(task, NOW) == ran_seconds(attempt) == 25.1
    assert ran_seconds(an_attempt(state=AttemptState.LOST, **times)) == 68
    assert duration_seconds(a_task(state=TaskState.RUNNING, started_at=NOW), NOW) == 0


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        written = self.buffer
        assert isinstance(written, io.BytesIO)
        return written.getvalue().decode()


COLUMNS = [
    TableColumn("NAME", shrinks=True),
    TableColumn("AGE", is_number=True),
    TableColumn("WHY"),
]
ROWS = [
    [Cell("hello"), Cell("3 s"), Cell("")],
    [Cell("a\x1b[2Jb", Tone.BAD), Cell("12 min"), Cell("no [bold]GPU[/bold]")],
]


def test_a_table_in_a_pipe_is_aligned_and_plain(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(Pane(sys.stdout), COLUMNS, ROWS)
    assert capsys.readouterr().out == (
        "NAME       AGE  WHY\nhello      3 s  -\na�[2Jb  12 min  no [bold]GPU[/bold]\n"
    )


def test_a_table_in_a_narrow_terminal_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    show_table(Pane(terminal), COLUMNS, [*ROWS, [Cell("x" * 60), Cell("1 s"), Cell("why")]])
    lines = terminal.text().splitlines()
    assert all(len(line) <= 44 for line in lines)
    assert "…" in lines[-1]
    assert "[bold]GPU[/bold]" in lines[2]
    assert "\x1b[2J" not in terminal.text()


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_follows_the_environment_variables(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b" in Pane(Terminal()).paint("text", Tone.GOOD)) == coloured


@pytest.mark.parametrize("tone", COLOURS)
def test_colours_can_be_read_on_white_and_on_black(tone: Tone) -> None:
    """By the measure of the Web's accessibility guidelines; 3 is enough for what is large."""
    colour = Color.parse(f"color({COLOURS[tone]})").get_truecolor()
    parts = [part / 255 for part in colour]
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    light = sum(part * share for part, share in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
    assert 1.05 / (light + 0.05) > 3.8
    assert (light + 0.05) / 0.05 > 3.8


def test_few_colours_where_there_are_only_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    painted = {}
    for term in ("linux", "xterm-256color"):
        monkeypatch.setenv("TERM", term)
        painted[term] = Pane(Terminal()).paint("no", Tone.BAD)
    assert painted == {
        "linux": "\x1b[1;31mno\x1b[0m",
        "xterm-256color": "\x1b[1;38;5;160mno\x1b[0m",
    }


def test_control_characters_are_shown_escaped() -> None:
    assert printable("a\x1b]0;x\x07\r\nb\x9b") == "a�]0;x���b�"


def page(*pieces: tuple[str, bytes], attempt: str = "attempt_1") -> LogPage:
    logged = [LogPiece(stream, data) for stream, data in pieces]
    return LogPage(AttemptId(attempt), 0, len(logged), logged, False)


def test_output_is_exact_and_on_its_stream(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = TaskOutput(Screen())
    output.show(page(("stdout", b"a\xff\x00"), ("stderr", b"e\n"), ("stdout", b"b")))
    output.show(page(("potluck", b"cut\x1b here\nand there")))
    output.show(page(("stdout", b"again\n"), attempt="attempt_2"))
    captured = capfdbinary.readouterr()
    assert captured.out == b"a\xff\x00bagain\n"
    assert captured.err.decode() == (
        "e\npotluck: cut� here\npotluck: and there\n"
        "potluck: the task starts again, in a new attempt\n"
    )


def test_output_as_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    TaskOutput(Screen(json=True)).show(page(("stdout", b"a\xff"), ("potluck", b"cut")))
    captured = capfdbinary.readouterr()
    assert captured.err == b""
    assert captured.out.decode().splitlines() == [
        '{"event":"log","attempt_id":"attempt_1","stream":"stdout","text":"a�"}',
        '{"event":"log","attempt_id":"attempt_1","stream":"potluck","text":"cut"}',
    ]


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        (TaskState.SUCCEEDED, 0, 0),
        (TaskState.FAILED, 3, 3),
        (TaskState.FAILED, -9, 137),  # by a signal
        (TaskState.FAILED, None, 1),  # it never ran
        (TaskState.FAILED, 0, 1),
        (TaskState.CANCELLED, None, 130),
        (TaskState.EXPIRED, None, 1),
    ],
)
def test_the_exit_status_of_run(state: TaskState, exit_code: int | None, status: int) -> None:
    assert exit_status(a_task(state, exit_code=exit_code)) == status


def test_why() -> None:
    waiting = WaitingReason("no_device", "No node has a GPU.")
    assert describe_reason(a_task(waiting=waiting)) == "No node has a GPU."
    assert (
        describe_reason(a_task(TaskState.SUCCEEDED, reason=EndReason.COMPLETED, waiting=waiting))
        == ""
    )
    assert (
        describe_reason(a_task(TaskState.FAILED, reason=EndReason.DISK_LIMIT))
        == "it filled its disk"
    )
    expired_task = a_task(TaskState.EXPIRED, reason=EndReason.DEADLINE)
    assert describe_reason(expired_task) == "it was not started in time"
    failed = a_task(TaskState.FAILED, reason=EndReason.EXIT_STATUS, exit_code=3)
    assert describe_reason(failed) == "exit status 3"


def test_stage_of_a_task_is_described() -> None:
    assert describe_stage(a_task()) == "queued"
    waiting = WaitingReason("no_device", "No node has a GPU.")
    assert describe_stage(a_task(waiting=waiting)) == "queued: No node has a GPU."
    running = a_task(TaskState.RUNNING, attempts=[an_attempt()])
    assert describe_stage(running) == "running on lap�[31mtop (CPU plain)"


@pytest.mark.parametrize(
    ("counts", "live", "logged"),
    [
        # (total, pending, succeeded, failed), the rest is being worked on
        ((10_000, 9_000, 0, 0), f"{'╌' * 20} 0 % · 0 of 10,000 items", "0 % of 10,000 items"),
        (
            (10_000, 0, 6_088, 12),
            f"{'━' * 12}{'╌' * 8} 61 % · 6,100 of 10,000 items, 12 failed",
            "60 % of 10,000 items",
        ),
        ((1000, 0, 999, 0), f"{'━' * 19}╌ 99 % · 999 of 1,000 items", "90 % of 1,000 items"),
        ((3, 0, 3, 0), f"{'━' * 20} 100 % · 3 of 3 items", "100 % of 3 items"),
    ],
)
def test_progress_of_an_array_is_described(
    counts: tuple[int, int, int, int], live: str, logged: str
) -> None:
    running = a_task(TaskState.RUNNING, items=ItemCounts(*counts), attempts=[an_attempt()])
    assert describe_stage(running, is_live=True) == f"running: {live}"
    assert describe_stage(running) == f"running: {logged}"
    between = a_task(TaskState.ASSIGNED, items=ItemCounts(*counts))
    assert describe_stage(between).startswith("running:") == (counts[2] > 0)


def test_a_bar_gives_way_before_words_do() -> None:
    text = f"running: {draw_bar(60)} · 6 of 10 items"
    assert fit_bar(text, 80) == text
    assert fit_bar(text, len(text) - 10) == f"running: {'━' * 6}{'╌' * 4} 60 % · 6 of 10 items"
    assert fit_bar(text, 20) == "running: 60 % · 6 of 10 items"


def test_an_array_that_has_not_begun_says_why() -> None:
    waiting = WaitingReason("no_device", "No node has a GPU.")
    queued = a_task(waiting=waiting, items=ItemCounts(10, 10, 0, 0))
    assert describe_stage(queued, is_live=True) == "queued: No node has a GPU."


def test_the_summary_of_an_array_counts() -> None:
    ended_task = a_task(
        TaskState.FAILED,
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=2),
        attempts=[an_attempt()],
        items=ItemCounts(10, 0, 8, 2),
        reason=EndReason.ITEMS_FAILED,
        detail="2 of 10 items failed.",
    )
    assert summarize_task(ended_task, NOW) == "hello failed after 2.0 s: 10 of 10 items, 2 failed"


def test_failed_items_of_a_task_that_succeeded_are_told() -> None:
    ended_task = a_task(
        TaskState.SUCCEEDED, items=ItemCounts(9, 0, 5, 3, cancelled=1), reason=EndReason.COMPLETED
    )
    assert describe_reason(ended_task) == "3 items failed"
    assert describe_reason(replace(ended_task, is_stream=True)) == "3 calls failed"
    assert ended_task.items is not None
    counts = replace(ended_task.items, failed=0, cancelled=1)
    stream = replace(ended_task, is_stream=True, items=counts)
    assert describe_reason(stream) == "1 call cancelled"
    assert summarize_task(ended_task, NOW) == "hello succeeded: 9 of 9 items, 3 failed, 1 cancelled"


def test_the_summary_is_one_line() -> None:
    ended_task = a_task(
        TaskState.FAILED,
        started_at=NOW,
        finished_at=NOW + timedelta(seconds=2),
        attempts=[an_attempt(devices=[])],
        reason=EndReason.TIME_LIMIT,
    )
    assert (
        summarize_task(ended_task, NOW)
        == "hello failed after 2.0 s on lap�[31mtop: it ran past its time limit"
    )
