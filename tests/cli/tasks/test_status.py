"""`potluck status` and `potluck retry`: one task on one screen, and once more."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.wire.consumer import (
    AttemptDevice,
    AttemptView,
    Explanation,
    ItemCounts,
    RetryTask,
    TaskPage,
    TaskView,
)
from tests.cli.command_line import CommandLine, Finished
from tests.consumer.fake_server import FakeServer, a_task, refuses, says, state_event, streams


def ago(**units: float) -> datetime:
    return datetime.now(UTC) - timedelta(**units)


def an_attempt(number: int = 1, **changes: object) -> AttemptView:
    device = AttemptDevice("device_1", "RTX 4090", 1000, 0)  # type: ignore[arg-type]
    attempt = AttemptView(
        AttemptId(f"attempt_{number}"),
        number,
        AttemptState.RUNNING,
        NodeId("node_1"),
        "attic",
        [device],
        ago(minutes=5),
        ago(minutes=4, seconds=59.5),
    )
    return replace(attempt, **changes)


def shown_of(user: CommandLine, server: FakeServer, task: TaskView, *options: str) -> Finished:
    server.plays(f"/v1/tasks/{task.id}", says(task))
    return user.run("status", task.id, *options)


def test_a_task_that_runs(user: CommandLine, server: FakeServer) -> None:
    lost_attempt = an_attempt(
        1, state=AttemptState.LOST, reason=EndReason.NODE_LEFT, finished_at=ago()
    )
    task = a_task(
        TaskState.RUNNING,
        created_at=ago(hours=3, seconds=5),
        started_at=ago(hours=2, seconds=20),
        attempts=[
            lost_attempt,
            an_attempt(2, started_at=ago(minutes=4, seconds=1), is_on_own_node=True),
        ],
        attempt_count=2,
        charge_micro=20_000,
    )
    result = shown_of(user, server, task)
    assert result.status == 0
    end = task.id[-8:]
    assert result.stdout.decode().splitlines() == [
        f"hello {task.id}",
        "state      running",
        "where      attic (RTX 4090)",
        "submitted  3 h ago",
        "waited     59 min 45 s",
        "runs       4 min 1 s (attempt 2), of at most 6 h 0 min",
        "attempts   2; 1 lost on attic (node left)",
        "cost       0.02 credits so far",
        "",
        f"potluck logs -f {end}        follows its output",
        f"potluck result --wait {end}  waits until it ends",
        f"potluck cancel {end}         cancels it",
    ]


def test_a_failed_task_shows_the_end_of_its_stderr_and_what_to_do(
    user: CommandLine, server: FakeServer
) -> None:
    task = a_task(
        TaskState.FAILED,
        attempts=[an_attempt()],
        attempt_count=1,
        reason=EndReason.EXIT_STATUS,
        detail="it ended with exit status 1",
        exit_code=1,
        last_lines="\n".join(f"line {number}" for number in range(11, 20))
        + "\n\x1b]52;c;x\x07ModuleNotFoundError: No module named 'yaml'",
    )
    output = shown_of(user, server, task).stdout.decode()
    end = task.id[-8:]
    lines = output.splitlines()
    index = lines.index(f"The end of its stderr; `potluck logs {end}` shows all:")
    assert lines[index + 1 : index + 10] == [f"  line {number}" for number in range(11, 20)]
    assert lines[index + 10].endswith("ModuleNotFoundError: No module named 'yaml'")
    assert "\x1b" not in output
    (reason_line,) = (line for line in lines if line.startswith("why "))
    assert reason_line.endswith("ModuleNotFoundError: No module named 'yaml'")
    assert (
        lines[index + 11].startswith("Hint: Run the script with --with pyyaml")
        and '["pyyaml"]' in lines[index + 11]
    )
    (document,) = shown_of(user, server, task, "--json").lines()
    assert document["stderr_tail"][0] == "line 11" and '["pyyaml"]' in document["hint"]


@pytest.mark.parametrize(
    ("own_attempts", "explanation"),
    [
        ((20_000,), "paid to yourself: your own device has a price, and your balance is the same"),
        ((5_000, 0), "of which you paid 0.005 credits to yourself (your own device)"),
        ((), ""),
    ],
)
def test_the_price_of_an_own_device_is_explained(
    user: CommandLine, server: FakeServer, own_attempts: tuple[int, ...], explanation: str
) -> None:
    attempts = [
        an_attempt(number, charge_micro=charge, is_on_own_node=True)
        for number, charge in enumerate(own_attempts, 1)
    ]
    task = a_task(TaskState.SUCCEEDED, attempts=attempts, charge_micro=20_000)
    (cost,) = (
        line
        for line in shown_of(user, server, task).stdout.decode().splitlines()
        if line.startswith("cost")
    )
    assert cost == ", ".join(filter(None, ("cost       0.02 credits", explanation)))


def test_a_task_that_waits_says_why_and_until_when(user: CommandLine, server: FakeServer) -> None:
    task = a_task(created_at=ago(seconds=3))
    explanation = Explanation(task.id, task.state, "1 node has its devices in use.", 1, position=1)
    server.plays(f"/v1/tasks/{task.id}/explain", says(explanation))
    lines = shown_of(user, server, task).stdout.decode().splitlines()
    assert lines[1:5] == [
        "state      queued",
        "why        1 node has its devices in use.",
        "starts     It is next in the queue.",
        "submitted  3 s ago",
    ]
    (document,) = shown_of(user, server, task, "--json").lines()
    assert (document["state"], document["explanation"]["position"]) == ("queued", 1)


def test_an_array_that_failed_can_be_tried_again(user: CommandLine, server: FakeServer) -> None:
    task = a_task(
        TaskState.FAILED,
        reason=EndReason.ITEMS_FAILED,
        detail="2 of 10 items failed.",
        items=ItemCounts(10, 0, 8, 2),
        kept_until=datetime(2026, 12, 24, tzinfo=UTC),
        retry_of=a_task().id,
    )
    lines = shown_of(user, server, task).stdout.decode().splitlines()
    assert "why        2 of 10 items failed." in lines
    assert "items      10 of 10 items, 2 failed" in lines
    assert f"retry of   {task.retry_of}" in lines
    assert "kept       until 2026-12-24" in lines
    assert any(line.startswith(f"potluck retry {task.id[-8:]} ") for line in lines)


def test_an_item_is_retried_with_its_array(user: CommandLine, server: FakeServer) -> None:
    task = a_task(TaskState.FAILED, reason=EndReason.EXIT_STATUS, exit_code=1)
    item = replace(task, id=TaskId(f"{task.id}#3"))
    server.plays(f"/v1/tasks/{task.id}%233", says(item))
    output = user.run("status", item.id).stdout.decode()
    assert f"potluck retry {task.id[-8:]} " in output, output
    assert f"potluck logs {task.id[-8:]}#3" in output


def test_a_single_call_is_retried_and_shows_no_end_of_other_calls(
    user: CommandLine, server: FakeServer
) -> None:
    attempts = [
        an_attempt(1, state=AttemptState.SUCCEEDED, reason=EndReason.COMPLETED, finished_at=ago()),
        an_attempt(2, state=AttemptState.FAILED, reason=EndReason.EXCEPTION, finished_at=ago()),
    ]
    task = a_task(TaskState.FAILED, attempts=attempts, attempt_count=2, is_stream=True)
    call = replace(task, id=TaskId(f"{task.id}#3"))
    server.plays(f"/v1/tasks/{task.id}%233", says(call))
    output = user.run("status", call.id).stdout.decode()
    assert f"potluck retry {task.id[-8:]}#3 " in output, output
    assert "attempts   2 had it among their items\n" in output and "1 succeeded" not in output, (
        output
    )


def test_watching_ends_with_the_task(
    user: CommandLine, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potluck.cli.tasks.status._WATCH_SECONDS", 0.01)
    task = a_task(TaskState.RUNNING, attempts=[an_attempt()])
    ended_task = replace(task, state=TaskState.SUCCEEDED, phase="succeeded")
    server.plays(f"/v1/tasks/{task.id}", says(task), says(task), says(ended_task))
    result = user.run("status", task.id, "--watch", "--json")
    assert [line["state"] for line in result.lines()] == ["running", "running", "succeeded"]


def test_retry_shows_the_new_id(user: CommandLine, server: FakeServer) -> None:
    old = a_task(TaskState.FAILED)
    new = a_task(retry_of=old.id, items=ItemCounts(10, 2, 8, 0))
    server.plays(f"/v1/tasks/{old.id}/retry", says(new, 201))
    result = user.run("retry", old.id, "--all")
    assert (result.status, result.stdout.decode()) == (0, f"{new.id}\n")
    assert (
        f"Running 2 items of 10 again; the results of the others are with {old.id[-8:]}"
        in result.stderr
    )
    (sent,) = server.requests
    assert sent.headers["Idempotency-Key"]
    assert msgspec.json.decode(sent.body, type=RetryTask) == RetryTask(all_items=True)


def test_retry_can_be_watched(user: CommandLine, server: FakeServer) -> None:
    old, new = a_task(TaskState.FAILED), a_task()
    ended_task = replace(new, state=TaskState.FAILED, exit_code=3, phase="failed")
    server.plays(f"/v1/tasks/{old.id}/retry", says(new, 201))
    server.plays(f"/v1/tasks/{new.id}/follow", streams(state_event(1, ended_task)))
    assert user.run("retry", old.id, "-f").status == 3


def test_secrets_are_given_again(
    user: CommandLine, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = a_task(TaskState.FAILED)
    refusal = InvalidInput("task_1 had a secret, forgotten when it ended.", "Give them again.")
    server.plays(f"/v1/tasks/{task.id}/retry", refuses(refusal), says(a_task(), 201))
    result = user.run("retry", task.id)
    assert result.status == 64 and "forgotten when it ended" in result.stderr
    user.variables["API_TOKEN"] = "long enough"
    assert user.run("retry", task.id, "--secret", "API_TOKEN").status == 0
    sent = msgspec.json.decode(server.requests[-1].body, type=RetryTask)
    assert sent.secrets == {"API_TOKEN": "long enough"}


def test_a_retry_of_an_unfinished_task_is_refused(user: CommandLine, server: FakeServer) -> None:
    task = a_task()
    server.plays("/v1/tasks", says(TaskPage([task])))
    refusal = Conflict("It has not ended yet: it is queued.", "Wait for its end.")
    server.plays(f"/v1/tasks/{task.id}/retry", refuses(refusal))
    result = user.run("retry", task.id[-8:])
    assert result.status != 0 and "Wait for its end" in result.stderr
